"""A generated driver: what holds of a run after every step it takes (agent-run.md 14).

Each step is taken twice, by the run and by one loaded from its document, and must end the same.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from app.engine.agent_run import AgentRun
from app.engine.commands import CallModel, CallTools, Skip
from app.engine.errors import MaxTurnsError, PromptCancelled, PromptError
from app.engine.messages import AssistantMessage, ToolCall, ToolResult, UserMessage
from app.engine.streaming.items import StreamedTurn
from tests.engine.machine.run_strategies import (
    ACTIONS,
    CALLS,
    REQUESTS,
    TURNS,
    USAGES,
    WORDS,
    new_runs,
)
from tests.engine.run_driving import result, stopped_at, text

if TYPE_CHECKING:
    from app.engine.commands import (
        CompletionCall,
        InvalidToolCallAction,
        ModelTurn,
        RetryRequest,
        ToolAnswer,
    )
    from app.engine.messages import Message
    from app.engine.usage import Usage

Step = Callable[[AgentRun], object]


def in_state(*names: str) -> Callable[[Any], Any]:
    return precondition(lambda self: self.run.state() in names)


def is_canonical(history: tuple[Message, ...]) -> bool:
    """agent-run.md 9.2, told once more: every message answers exactly what the last one asked."""
    asked: list[str] = []
    previous: Message | None = None
    for message in history:
        answered: list[str] = []
        asks: list[str] = []
        if isinstance(message, AssistantMessage):
            if isinstance(previous, AssistantMessage):
                return False
            asks = [part.id for part in message.content if isinstance(part, ToolCall)]
        if isinstance(message, UserMessage):
            answered = [part.call for part in message.content if isinstance(part, ToolResult)]
        if sorted(answered) != sorted(asked):
            return False
        asked, previous = asks, message
    return not asked


class Failure(NamedTuple):
    """What was raised."""

    error: type[PromptError]
    message: str
    history: tuple[Message, ...]


def outcome(step: Step, run: AgentRun) -> object:
    """What a step gives or raises, in a form that can be compared."""
    try:
        return step(run)
    except PromptError as error:
        return Failure(type(error), str(error), error.chat_history)


class Driver(RuleBasedStateMachine):
    """Drives one run through whatever its state allows."""

    def __init__(self) -> None:
        super().__init__()
        self.run = AgentRun.new("unused")
        self.skipped = False
        self.turns: list[int] = []
        self.calls: tuple[CompletionCall, ...] = ()
        self.messages: tuple[Message, ...] = ()

    @initialize(run=new_runs())
    def begin(self, run: AgentRun) -> None:
        self.run = run
        self.messages = run.messages()

    def take(self, step: Step) -> object:
        """Take a step with the run and with its reloaded twin, and compare all there is."""
        twin = AgentRun.load(self.run.dump_json())
        found = outcome(step, self.run)
        assert outcome(step, twin) == found
        assert twin == self.run
        assert twin.response() == self.run.response()
        if isinstance(found, Failure) and found.error in {MaxTurnsError, PromptCancelled}:
            assert is_canonical(found.history)
        return found

    @rule()
    @in_state("preparing_request", "awaiting_advance", "executing_tools", "done")
    def next_step(self) -> None:
        """P6, P12, P14"""
        state, document = self.run.state(), self.run.dump()
        found = self.take(AgentRun.next_step)
        match found:
            case CallModel():
                assert found.turn == len(self.turns) + 1
                self.turns.append(found.turn)
                assert self.run.full_history() == (*found.history, found.prompt)
            case CallTools():
                assert not self.skipped
                for pending in found.calls:
                    malformed = pending.tool_call.function.invalid_arguments is not None
                    assert pending.kind == ("malformed" if malformed else "execute")
            case _:
                pass
        self.skipped = False
        if state in {"executing_tools", "done"}:
            assert self.run.dump() == document
            assert self.run.next_step() == found
        assert self.run.state() != "awaiting_advance"

    @rule(usage=USAGES)
    @in_state("preparing_request", "awaiting_model")
    def record(self, usage: Usage) -> None:
        self.take(lambda run: run.record_streamed_completion_call(usage))

    @rule(turn=TURNS)
    @in_state("awaiting_model")
    def respond(self, turn: ModelTurn) -> None:
        self.take(lambda run: run.model_response(turn))

    @rule(turn=TURNS)
    @in_state("awaiting_model")
    def stream(self, turn: ModelTurn) -> None:
        streamed = StreamedTurn(
            choice=turn.choice, policy=turn.policy, finish_reason=turn.finish_reason
        )
        self.take(lambda run: run.streamed_turn(streamed))

    @rule(turn=TURNS, bad=CALLS, action=ACTIONS, said=st.none() | WORDS)
    @in_state("awaiting_model")
    def stop_in_the_stream(
        self, turn: ModelTurn, bad: ToolCall, action: InvalidToolCallAction, said: str | None
    ) -> None:
        stopped = stopped_at(bad.renamed("unknown"), said=said, policy=turn.policy)
        self.take(lambda run: run.resolve_streamed_invalid_tool_call(*stopped, action))

    @rule()
    @in_state("awaiting_model")
    def lose_the_answer(self) -> None:
        """P12"""
        loaded = AgentRun.load(self.run.dump())
        again = self.run.reissue()
        assert loaded.next_step() == again == self.run.reissue()
        assert again.turn == self.turns[-1]
        assert loaded == self.run

    @rule(action=ACTIONS)
    @in_state("resolving_tool_calls")
    def decide(self, action: InvalidToolCallAction) -> None:
        self.take(lambda run: run.resolve_invalid_tool_call(action))
        self.skipped = self.skipped or isinstance(action, Skip)
        if self.run.state() in {"preparing_request", "failed"}:
            self.skipped = False

    @rule()
    @in_state("resolving_tool_calls")
    def decide_nothing(self) -> None:
        context = self.run.pending_invalid_tool_call()
        assert context == AgentRun.load(self.run.dump()).pending_invalid_tool_call()
        self.take(AgentRun.resolve_unhandled_invalid_tool_call)

    @rule(request=REQUESTS)
    @in_state("awaiting_advance")
    def send_back(self, request: RetryRequest) -> None:
        self.take(lambda run: run.retry_model_turn(request))

    @rule(word=WORDS)
    @in_state("awaiting_advance")
    def replace(self, word: str) -> None:
        self.take(lambda run: run.replace_accepted_turn([text(word)]))

    @rule(data=st.data())
    @in_state("executing_tools")
    def answer_some(self, data: st.DataObject) -> None:
        pending = data.draw(st.lists(st.sampled_from(self.run.pending_tool_calls()), unique_by=id))
        answers: list[ToolAnswer] = [
            one.answer("result")
            if one.kind == "execute"
            else one.answer_malformed(data.draw(st.none() | ACTIONS))
            for one in pending
        ]
        self.take(lambda run: run.answer_tool_calls(answers))

    @rule()
    @in_state("executing_tools")
    def answer_all(self) -> None:
        pending = self.run.pending_tool_calls()
        results = [result(one.tool_call.id, "result") for one in pending if one.kind == "execute"]
        self.take(lambda run: run.tool_results(results))
        assert self.run.state() == "preparing_request"

    @rule()
    def go_on_as_a_clone(self) -> None:
        self.run = self.run.clone()

    @invariant()
    def the_history_is_canonical(self) -> None:
        """P4, P9"""
        assert is_canonical(self.run.full_history())
        assert self.run.cancel_error("stop").chat_history == self.run.full_history()
        if self.run.state() != "executing_tools":
            assert is_canonical(self.run.messages())

    @invariant()
    def the_bill_is_the_sum(self) -> None:
        """P5"""
        calls = self.run.completion_calls()
        assert calls[: len(self.calls)] == self.calls
        self.calls = calls
        assert [call.call_index for call in calls] == list(range(len(calls)))
        total = self.run.usage().model_dump()
        assert total == {name: sum(getattr(one.usage, name) for one in calls) for name in total}

    @invariant()
    def messages_only_grow(self) -> None:
        """P15"""
        assert grew(self.messages, self.run.messages())
        self.messages = self.run.messages()

    @invariant()
    def no_turn_is_beyond_the_budget(self) -> None:
        """P3"""
        config: Any = self.run.dump()["config"]
        assert self.run.turn() == len(self.turns) <= config["max_turns"]


def grew(before: tuple[Message, ...], after: tuple[Message, ...]) -> bool:
    """Whether messages were appended only, or a part to the last user message."""
    if after[: len(before)] == before:
        return True
    last, extended = before[-1], after[-1]
    return (
        len(after) == len(before)
        and after[:-1] == before[:-1]
        and isinstance(last, UserMessage)
        and isinstance(extended, UserMessage)
        and extended.content[:-1] == last.content
    )


TestDriver = Driver.TestCase
TestDriver.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)
