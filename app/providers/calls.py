"""From a provider's call to ours, with the argument text kept exactly as it was sent.

The turn reads the arguments from that text, since a parsed object has lost duplicate keys and the
spelling of numbers (turn.md 3.3). Text that is absent or blank means no arguments: `{}`.
"""

from __future__ import annotations

from typing import Final

from app.engine.json_text import FrozenObject
from app.engine.messages import ToolCall

ARGUMENTS_TEXT: Final = "arguments_text"


def call_from_wire(
    wire_id: str | None,
    name: str,
    text: str | None,
    *,
    turn: int,
    position: int,
    item_id: str | None = None,
) -> ToolCall:
    """The call at `position` of the content of `turn`; `ToolCall.from_wire` fixes a missing id."""
    sent = text if text and not text.isspace() else "{}"
    call = ToolCall.from_wire(wire_id, name, sent, turn=turn, position=position, item_id=item_id)
    return call.model_copy(update={"additional_params": FrozenObject({ARGUMENTS_TEXT: sent})})


def sent_arguments(call: ToolCall) -> str:
    """The argument text as the provider sent it; of a call without one, its compact JSON."""
    match (call.additional_params or {}).get(ARGUMENTS_TEXT):
        case str() as text:
            return text
        case _:
            return call.arguments_text
