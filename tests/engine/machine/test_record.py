"""The record by itself. How a run moves from one to the next is seen through the run."""

from __future__ import annotations

import pytest

from app.engine.commands import CompletionCall, RunEntry
from app.engine.errors import ProtocolViolation
from app.engine.machine.record import (
    AwaitingModel,
    ExecutingTools,
    PreparingRequest,
    ResolvingToolCalls,
    RunConfig,
    RunFailed,
    RunRecord,
    Slot,
)
from app.engine.messages import AssistantMessage, UserMessage
from app.engine.texts import INTERRUPTED
from app.engine.turn_policy import TurnPolicy
from tests.engine.run_driving import ADD, call, result, result_texts, text, tokens

QUESTION = UserMessage.of_text("question")
FRESH = RunRecord(messages=(QUESTION,))


def test_an_assistant_message_is_no_prompt() -> None:
    assert FRESH.prompt() == QUESTION
    record = RunRecord(messages=(AssistantMessage(content=(text("a"),)),))
    with pytest.raises(TypeError, match="only a user message"):
        record.prompt()


def test_only_a_call_can_be_parked_on() -> None:
    content = (text("a"), call("b"))
    state = ResolvingToolCalls(original=content, items=content, next_position=1, policy=ADD)
    assert state.parked_call() == call("b")
    with pytest.raises(TypeError, match="parked on tool calls only"):
        state.model_copy(update={"next_position": 0}).parked_call()


def test_an_open_batch_is_closed_in_the_full_history_only() -> None:
    """A175, A178"""
    asked = AssistantMessage(content=(call("a"), call("b")))
    slots = (
        Slot(position=0, tool_call=call("a")),
        Slot(position=1, tool_call=call("b"), answer=result("b", "2")),
    )
    record = FRESH.entering(ExecutingTools(slots=slots, policy=ADD), asked)
    assert record.messages == (QUESTION, asked)
    assert result_texts(record.full_history()[-1]) == [INTERRUPTED, "2"]
    assert FRESH.full_history() == (QUESTION,)


def test_the_diagnostic_history_ends_with_the_rejected_turn() -> None:
    rejected = AssistantMessage(id="m", content=(call("a", "unknown"),))
    assert FRESH.diagnostic_history(rejected.content, "m") == (QUESTION, rejected)


def test_a_record_is_billed_by_the_call() -> None:
    call_record = CompletionCall(call_index=0, usage=tokens(1, 2), raw=None)
    billed = FRESH.recording(call_record)
    assert (billed.usage, billed.completion_calls) == (tokens(1, 2), (call_record,))


def test_the_first_name_pins_the_output_tool() -> None:
    """A40, A173"""
    assert FRESH.pinning(None) == FRESH
    pinned = FRESH.pinning("first")
    assert pinned.pinning("second") == pinned
    assert pinned.effective_policy(TurnPolicy(output_tool="second")).output_tool == "first"
    assert FRESH.effective_policy(ADD).output_tool_withheld


def test_only_the_counters_given_are_set() -> None:
    counted = FRESH.counting(malformed_tool_calls=2).counting(output_retries=1)
    assert counted.counters.model_dump() == {
        "invalid_tool_call_retries": 0,
        "malformed_tool_calls": 2,
        "output_retries": 1,
    }
    assert not counted.may_retry_invalid_call()
    assert counted.configured(RunConfig(max_invalid_tool_call_retries=1)).may_retry_invalid_call()


def test_the_other_changes_touch_one_thing_each() -> None:
    other = UserMessage.of_text("other")
    entry = RunEntry(kind="note", turn=0, value=None)
    assert FRESH.replacing_prompt(other).messages == (other,)
    assert FRESH.with_input_history((other,)).full_history() == (other, QUESTION)
    assert FRESH.with_entry(entry).entries == (entry,)
    assert FRESH.with_previous_model("fast").previous_model == "fast"
    assert FRESH.failed().state == RunFailed()
    begun = FRESH.beginning_turn()
    assert (begun.turn, begun.state) == (1, AwaitingModel())
    assert begun.entering(PreparingRequest()).messages == FRESH.messages


def test_a_violation_carries_the_history_to_resume_from() -> None:
    error = FRESH.violation("no")
    assert isinstance(error, ProtocolViolation)
    assert error.chat_history == (QUESTION,)
