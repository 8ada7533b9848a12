from __future__ import annotations

import pytest
from pydantic import TypeAdapter, ValidationError

from app.engine.messages import Reasoning, ReasoningText
from app.engine.streaming.items import (
    FinalItem,
    InternalCallId,
    ReasoningDeltaItem,
    ReasoningItem,
    StreamedTurn,
    StreamItem,
    TextItem,
    ToolCallArgumentsItem,
    ToolCallItem,
    ToolCallNameItem,
    UnknownItem,
)
from app.engine.usage import FinishReason
from tests.engine.run_driving import ADD, call, text

ITEM: TypeAdapter[StreamItem] = TypeAdapter(StreamItem)
ITEMS: list[StreamItem] = [
    TextItem(text="a"),
    ReasoningItem(correlator="c", reasoning=Reasoning(content=(ReasoningText(text="why"),))),
    ReasoningDeltaItem(correlator="c", text="w", provider_id="rs_1"),
    ToolCallItem(tool_call=call("a"), internal_call_id="i"),
    ToolCallNameItem(internal_call_id="i", name="add"),
    ToolCallArgumentsItem(internal_call_id="i", delta='{"x"'),
    FinalItem(finish_reason=FinishReason(kind="stop"), raw=None),
    UnknownItem(payload={"type": "web_search_call"}),
]


@pytest.mark.parametrize("item", ITEMS, ids=lambda item: item.type)
def test_every_item_survives_json(item: StreamItem) -> None:
    """A157, P19"""
    assert ITEM.validate_json(ITEM.dump_json(item)) == item


@pytest.mark.parametrize("positions", [(0,), (3,), (2, 1), (1, 1)])
def test_internal_ids_belong_to_calls_and_stand_in_order(positions: tuple[int, ...]) -> None:
    """agent-run.md 12: a turn that is accepted can also be stored and loaded."""
    known = tuple(InternalCallId(position=at, internal_call_id="i") for at in positions)
    with pytest.raises(ValidationError, match="internal_call_ids"):
        StreamedTurn(choice=(text("a"), call("b"), call("c")), policy=ADD, internal_call_ids=known)
