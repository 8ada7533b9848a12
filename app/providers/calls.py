"""From a provider's call to ours, with the argument text kept exactly as it was sent.

`app.turn.state.call` reads the arguments from that text. Text that is absent or blank means no
arguments: `{}`.
"""

from __future__ import annotations

from app.engine.json.text import FrozenObject
from app.engine.messages import ToolCall
from app.turn.state.call import ARGUMENTS_TEXT, NO_ARGUMENTS


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
    sent = text if text and not text.isspace() else NO_ARGUMENTS
    call = ToolCall.from_wire(wire_id, name, sent, turn=turn, position=position, item_id=item_id)
    return call.model_copy(update={"additional_params": FrozenObject({ARGUMENTS_TEXT: sent})})
