"""Builders for stream items and driving verbs for the assembler, in the words of the tests."""

from __future__ import annotations

from app.engine.messages import Reasoning, ReasoningText, ToolCall
from app.engine.streaming.assembler import StreamedTurnAssembler
from app.engine.streaming.items import (
    EmitToolCallDelta,
    FinalItem,
    InvalidToolCall,
    ReasoningDeltaItem,
    ReasoningItem,
    StreamedInvalidToolCall,
    StreamedTurnEvent,
    StreamItem,
    TextItem,
    ToolCallArgumentsItem,
    ToolCallItem,
    ToolCallNameItem,
    UnknownItem,
)
from app.engine.turn_policy import TurnPolicy
from app.engine.usage import FinishReason, Usage

POLICY = TurnPolicy(executable_tools=("add", "subtract"))


def assembler(*items: StreamItem) -> StreamedTurnAssembler:
    """An assembler that has taken in `items`."""
    made = StreamedTurnAssembler(POLICY)
    feed(made, *items)
    return made


def feed(target: StreamedTurnAssembler, *items: StreamItem) -> list[StreamedTurnEvent]:
    """Ingest `items`; the events of all of them, in order."""
    return [event for item in items for event in target.ingest(item)]


def invalid_of(events: list[StreamedTurnEvent]) -> StreamedInvalidToolCall:
    """The one invalid call that the only event reports."""
    (event,) = events
    assert isinstance(event, InvalidToolCall)
    return event.invalid


def deltas_of(events: list[StreamedTurnEvent]) -> list[tuple[str, str, str]]:
    """Internal id, kind and value of events that are all pieces of calls."""
    pieces: list[tuple[str, str, str]] = []
    for event in events:
        assert isinstance(event, EmitToolCallDelta)
        pieces.append((event.internal_call_id, event.kind, event.value))
    return pieces


def text(value: str) -> TextItem:
    return TextItem(text=value)


def thought(*texts: str, id_: str | None = None, signature: str | None = None) -> Reasoning:
    parts = tuple(ReasoningText(text=one, signature=signature) for one in texts)
    return Reasoning(id=id_, content=parts)


def delta(correlator: str, value: str, id_: str | None = None) -> ReasoningDeltaItem:
    return ReasoningDeltaItem(correlator=correlator, text=value, provider_id=id_)


def block(correlator: str, reasoning: Reasoning) -> ReasoningItem:
    return ReasoningItem(correlator=correlator, reasoning=reasoning)


def tool_call(id_: str, tool: str = "add", raw: object = '{"x":1}') -> ToolCall:
    return ToolCall.from_wire(id_, tool, raw, turn=1, position=0)


def whole(
    internal: str, tool: str = "add", id_: str = "tc_1", raw: object = '{"x":1}'
) -> ToolCallItem:
    return ToolCallItem(tool_call=tool_call(id_, tool, raw), internal_call_id=internal)


def name(internal: str, tool: str) -> ToolCallNameItem:
    return ToolCallNameItem(internal_call_id=internal, name=tool)


def args(internal: str, value: str) -> ToolCallArgumentsItem:
    return ToolCallArgumentsItem(internal_call_id=internal, delta=value)


def final(reason: FinishReason | None = None, usage: Usage | None = None) -> FinalItem:
    return FinalItem(usage=usage or Usage(), finish_reason=reason, raw=None)


def unknown(payload: object) -> UnknownItem:
    return UnknownItem(payload=payload)
