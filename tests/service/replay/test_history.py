"""The messages of earlier runs, folded from the log."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from app.engine.messages import (
    AssistantMessage,
    AssistantText,
    ToolResultJson,
    ToolResultText,
    UserMessage,
)
from app.log.calls import MessageAssistant, ToolCompleted
from app.log.payload import UsageTotals, WorkerRef
from app.log.runs import RunCancelled, TextDelta
from app.service.replay.history import HISTORY_EVENTS, fold_history, result_text, user_message
from tests.engine.run_driving import result_texts
from tests.support.log.logbook import Logbook, malformed_call, tool_call

if TYPE_CHECKING:
    from app.engine.messages import Message


def folded(log: Logbook) -> list[Message]:
    events = [event for event in log.events if event.type in HISTORY_EVENTS]
    return [one.message for one in fold_history(events, before_run="run_now")]


def a_run(log: Logbook, run_id: str, text: str) -> None:
    log.run_id = run_id
    log.said(text)
    log.started()
    log.step_started()


def said(message: Message) -> list[str]:
    assert isinstance(message, UserMessage)
    return [part.text for part in message.content if part.type == "text"]


def test_a_conversation_without_earlier_runs_has_no_history() -> None:
    log = Logbook(run_id="run_now")
    log.said("hello")
    log.started()
    assert folded(log) == []


def test_a_run_is_what_was_said_and_what_was_answered() -> None:
    log = Logbook()
    a_run(log, "run_1", "hello")
    log.reply(text="hi")
    first, second = folded(log)
    assert said(first) == ["hello"]
    assert second == AssistantMessage(content=(AssistantText(text="hi"),))


def test_the_parts_of_a_message_stay_parts() -> None:
    message = user_message({"content": [{"text": "one"}, {"text": "two"}]})
    assert said(message) == ["one", "two"]


def test_results_stand_in_the_order_of_the_calls_whatever_finished_first() -> None:
    log = Logbook()
    a_run(log, "run_1", "go")
    ids = log.reply(tool_call("a"), tool_call("b"))
    log.completed(ids[1], "second")
    log.completed(ids[0], "first")
    log.reply(text="done")
    assert result_texts(folded(log)[2]) == ["first", "second"]


def test_calls_that_share_a_provider_s_id_keep_their_own_results() -> None:
    log = Logbook()
    a_run(log, "run_1", "go")
    ids = log.reply(tool_call("same", n=1), tool_call("same", n=2))
    log.completed(ids[0], "one")
    log.completed(ids[1], "two")
    assert result_texts(folded(log)[2]) == ["one", "two"]


@dataclass(frozen=True)
class ResultCase:
    name: str
    kind: str
    text: str
    content: object


RESULTS = [
    ResultCase("completed", "completed", "plain", ToolResultText(text="plain")),
    ResultCase("failed", "failed", '{"error":"x"}', ToolResultText(text='{"error":"x"}')),
    ResultCase(
        "settled", "settled", '{"approved":false}', ToolResultJson(value={"approved": False})
    ),
]


@pytest.mark.parametrize("case", RESULTS, ids=lambda case: case.name)
def test_a_synthetic_result_stands_as_json_and_a_tool_s_as_text(case: ResultCase) -> None:
    """So that a replayed denial taints nobody (turn.md 5.5)."""
    log = Logbook()
    a_run(log, "run_1", "go")
    (call_id,) = log.reply(tool_call("a"))
    getattr(log, case.kind)(call_id, case.text)
    last = folded(log)[-1]
    assert isinstance(last, UserMessage)
    assert [part.content for part in last.content if part.type == "tool_result"] == [
        (case.content,)
    ]


def test_a_malformed_call_has_its_result_too() -> None:
    log = Logbook()
    a_run(log, "run_1", "go")
    (call_id,) = log.reply(malformed_call("a"))
    log.settled(call_id, '{"code":"malformed_arguments"}', "malformed_arguments")
    assert len(folded(log)) == 3


def test_runs_follow_each_other_in_the_order_in_which_they_were_driven() -> None:
    """An interrupting run is driven before one that was accepted earlier."""
    log = Logbook()
    log.run_id = "run_1"
    log.said("accepted first")
    a_run(log, "run_2", "driven first")
    log.reply(text="b")
    log.run_id = "run_1"
    log.started()
    log.reply(text="a")
    assert [said(message) for message in folded(log)[::2]] == [["driven first"], ["accepted first"]]


def test_a_run_cancelled_before_it_started_was_never_said() -> None:
    log = Logbook()
    log.said("never mind")
    log.add(RunCancelled(by="alice", reason="requested"))
    assert folded(log) == []


def test_the_run_itself_and_its_deltas_are_no_history() -> None:
    log = Logbook()
    a_run(log, "run_1", "hello")
    log.add(TextDelta(text="h"))
    log.reply(text="hi")
    a_run(log, "run_now", "again")
    assert len(folded(log)) == 2


def test_what_a_broken_stream_left_is_kept_as_text() -> None:
    log = Logbook()
    a_run(log, "run_1", "hello")
    log.cut_off("half an ans")
    assert folded(log)[1] == AssistantMessage(content=(AssistantText(text="half an ans"),))


def test_a_stream_that_broke_without_text_leaves_no_message() -> None:
    log = Logbook()
    a_run(log, "run_1", "hello")
    log.cut_off("")
    assert len(folded(log)) == 1


def test_the_text_of_a_failure_is_its_error() -> None:
    log = Logbook()
    log.failed("call_1_1_0", "it broke")
    assert result_text(log.events[0]) == "it broke"


def test_what_a_delegated_worker_said_is_no_part_of_it() -> None:
    log = Logbook()
    a_run(log, "run_1", "hello")
    worker = WorkerRef(call_id="call_1_1_0", agent="w")
    usage = UsageTotals()
    log.add(MessageAssistant(message_id="m", usage=usage, stop=None, content=(), worker=worker))
    log.add(ToolCompleted(call_id="call_1_1_0/call_1_1_0", tool="t", result="x", worker=worker))
    log.reply(text="hi")
    assert [type(message) for message in folded(log)] == [UserMessage, AssistantMessage]
