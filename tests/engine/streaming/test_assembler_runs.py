"""Assembler and run together, driven as agent-run.md 13.2 says."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from app.engine.agent_run import AgentRun
from app.engine.commands import (
    AgentRunStep,
    CallModel,
    CallTools,
    Done,
    Fail,
    Ignore,
    InvalidToolCallAction,
    Repair,
    Retry,
    Skip,
)
from app.engine.errors import CompletionError, UnknownToolCall
from app.engine.messages import (
    AssistantContent,
    AssistantMessage,
    AssistantText,
    Message,
    ToolCall,
    ToolResult,
    ToolResultText,
    UserMessage,
)
from app.engine.streaming.assembler import StreamedTurnAssembler
from app.engine.streaming.items import (
    Completed,
    InvalidToolCall,
    StreamedInvalidToolCall,
    StreamItem,
    TurnAbandoned,
)
from app.engine.texts import NOT_EXECUTED
from app.engine.usage import Usage
from tests.engine.streaming.stream_items import (
    POLICY,
    args,
    delta,
    final,
    name,
    text,
    thought,
    tool_call,
    whole,
)


@dataclass
class Driver:
    """A run, and what a driver does for each item of a stream."""

    run: AgentRun
    actions: list[InvalidToolCallAction] = field(default_factory=list)
    abandoned: TurnAbandoned | None = None

    def stream(self, *items: StreamItem, choice: tuple[AssistantContent, ...] = ()) -> AgentRunStep:
        """One streamed attempt from its model call to the next command."""
        streamed = StreamedTurnAssembler(self.run.effective_policy(POLICY))
        self.abandoned = None
        for item in items:
            for event in streamed.ingest(item):
                if isinstance(event, InvalidToolCall):
                    self.decide(streamed, event.invalid)
                elif isinstance(event, Completed):
                    self.run.record_streamed_completion_call(event.usage)
        if self.abandoned is None:
            self.run.streamed_turn(streamed.finish(None, choice))
        return self.run.next_step()

    def decide(self, streamed: StreamedTurnAssembler, invalid: StreamedInvalidToolCall) -> None:
        resolution = self.run.resolve_streamed_invalid_tool_call(
            streamed.partial_turn(), invalid, self.actions.pop(0)
        )
        streamed.resolve_pending_invalid(resolution)
        if isinstance(resolution, TurnAbandoned):
            self.abandoned = resolution


def started(*actions: InvalidToolCallAction) -> Driver:
    """A driver whose run awaits its first model answer, three turns and two retries at hand."""
    run = AgentRun.new("question").max_turns(3).max_invalid_tool_call_retries(2)
    run.next_step()
    return Driver(run, list(actions))


def used(tokens: int) -> Usage:
    return Usage(input_tokens=tokens)


def kinds(message: Message) -> list[str]:
    assert isinstance(message, AssistantMessage)
    return [part.type for part in message.content]


def results(message: Message) -> list[tuple[str, str]]:
    """Name and text of every result of a message of results."""
    assert isinstance(message, UserMessage)
    return [(part.name, one.text) for part, one in map(single, message.content)]


def single(part: object) -> tuple[ToolResult, ToolResultText]:
    assert isinstance(part, ToolResult)
    (one,) = part.content
    assert isinstance(one, ToolResultText)
    return part, one


def test_a_streamed_call_is_offered_and_the_next_turn_answers() -> None:
    """A68, A143."""
    driver = started()
    batch = driver.stream(whole("i1", id_="c1"), whole("i2", id_="c2"), final(usage=used(5)))
    assert isinstance(batch, CallTools)
    assert [(c.tool_call.id, c.internal_call_id) for c in batch.calls] == [
        ("c1", "i1"),
        ("c2", "i2"),
    ]
    driver.run.answer_tool_calls([call.answer("2") for call in batch.calls])
    driver.run.next_step()
    done = driver.stream(text("done"), final(usage=used(1)), choice=(AssistantText(text="done"),))
    assert isinstance(done, Done)
    assert done.response.output == "done"
    assert done.response.usage == used(6)
    assert len(done.response.messages) == 4


@pytest.mark.parametrize("action", [Retry(feedback="no"), Skip(reason="no")])
def test_an_abandoned_turn_keeps_its_order_and_is_billed_once(
    action: InvalidToolCallAction,
) -> None:
    """A69, A136, A137: reasoning, text, calls; the call that was decided on comes last."""
    driver = started(action)
    asked = driver.stream(
        delta("r", "why"),
        text("text"),
        whole("i1", id_="c1"),
        whole("i2", "nope", id_="c2"),
        whole("i3", "nope", id_="c3"),
        final(usage=used(4)),
    )
    assert isinstance(asked, CallModel)
    assert asked.turn == 2
    assert kinds(asked.history[-1]) == ["reasoning", "text", "tool_call", "tool_call"]
    assert results(asked.prompt) == [("add", NOT_EXECUTED), ("nope", "no")]
    assert driver.run.usage() == used(4)


def test_a_skip_hands_out_the_result_it_made_up() -> None:
    """A72."""
    driver = started(Skip(reason="gone"))
    driver.stream(whole("i1", "nope"), final())
    assert driver.abandoned is not None
    skipped = driver.abandoned.skipped_tool_result
    assert skipped is not None
    assert (skipped.call, single(skipped)[1].text) == ("tc_1", "gone")


def test_an_abandoned_name_leaves_no_delta_and_keeps_the_reasoning() -> None:
    """A138, A139, A141."""
    driver = started(Skip(reason="not here"))
    asked = driver.stream(delta("r", "why"), args("i1", '{"x":1}'), name("i1", "nope"), final())
    assert isinstance(asked, CallModel)
    history = asked.history[-1]
    assert isinstance(history, AssistantMessage)
    reasoning, call = history.content
    assert reasoning == thought("why")
    assert isinstance(call, ToolCall)
    assert (call.id, call.provider) == ("local-i1", None)
    assert results(asked.prompt) == [("nope", "not here")]


def test_the_next_attempt_starts_with_fresh_text() -> None:
    """A140."""
    driver = started(Retry(feedback="again"))
    driver.stream(text("stale "), whole("i1", "nope"), final())
    done = driver.stream(text("fresh"), final(), choice=(AssistantText(text="fresh"),))
    assert isinstance(done, Done)
    assert done.response.output == "fresh"


def test_a_repaired_call_runs_under_its_new_name() -> None:
    """A94, A148: the refused name appears nowhere in the messages."""
    driver = started(Repair(tool_name="add"))
    batch = driver.stream(name("i1", "default_api"), whole("i1", "default_api"), final())
    assert isinstance(batch, CallTools)
    assert [call.tool_call for call in batch.calls] == [tool_call("tc_1")]
    assert "default_api" not in str(driver.run.messages())


def test_an_ignored_call_is_gone_and_its_siblings_run() -> None:
    """A150."""
    driver = started(Ignore())
    batch = driver.stream(whole("i1", "nope"), whole("i2", id_="tc_2"), final())
    assert isinstance(batch, CallTools)
    assert [call.tool_call.id for call in batch.calls] == ["tc_2"]


def test_a_refused_decision_shows_the_turn_as_far_as_it_came() -> None:
    """A93, A142."""
    driver = started(Fail())
    with pytest.raises(UnknownToolCall) as caught:
        driver.stream(text("text"), whole("i1", id_="c1"), whole("i2", "nope", id_="c2"))
    shown = caught.value.chat_history[-1]
    assert isinstance(shown, AssistantMessage)
    assert shown.content == (
        AssistantText(text="text"),
        tool_call("c1"),
        tool_call("c2", "nope"),
    )


def test_arguments_without_a_name_record_nothing() -> None:
    """A146."""
    driver = started()
    with pytest.raises(CompletionError, match="2 buffered"):
        driver.stream(args("i9", "{"), args("i9", "}"), final())
    assert driver.run.completion_calls() == ()
    assert driver.run.reissue().turn == 1


def test_a_turn_fed_without_a_record_is_billed_with_zero_usage() -> None:
    """A77."""
    driver = started()
    done = driver.stream(text("a"), choice=(AssistantText(text="a"),))
    assert isinstance(done, Done)
    (call,) = driver.run.completion_calls()
    assert (call.usage, call.raw) == (Usage(), None)


def test_the_order_of_a_streamed_turn_is_that_of_history() -> None:
    """A92."""
    driver = started()
    batch = driver.stream(
        delta("r", "why"), whole("i1"), final(), choice=(AssistantText(text="both"),)
    )
    assert isinstance(batch, CallTools)
    assert [call.position for call in batch.calls] == [2]
    assert kinds(driver.run.messages()[-1]) == ["reasoning", "text", "tool_call"]
