"""What the record refuses to be asked. Everything else of it is seen through the run."""

from __future__ import annotations

import pytest

from app.engine.messages import AssistantMessage
from app.engine.run_record import ResolvingToolCalls, RunRecord
from tests.engine.run_driving import ADD, text


def test_an_assistant_message_is_no_prompt() -> None:
    record = RunRecord(messages=(AssistantMessage(content=(text("a"),)),))
    with pytest.raises(TypeError, match="only a user message"):
        record.prompt()


def test_only_a_call_can_be_parked_on() -> None:
    content = (text("a"),)
    state = ResolvingToolCalls(original=content, items=content, next_position=0, policy=ADD)
    with pytest.raises(TypeError, match="parked on tool calls only"):
        state.parked_call()
