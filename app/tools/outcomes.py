"""What tools answer: JSON text, failures included (turn.md 3.9, 9)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from app.engine.json.text import compact_json
from app.policy.taint import Trust
from app.turn.ports import ToolOutcome

if TYPE_CHECKING:
    from collections.abc import Mapping

TOOL_FAILED: Final = "tool_failed"
TOOL_TIMEOUT: Final = "tool_timeout"
SANDBOX_DENIED: Final = "sandbox_denied"
ADDRESS_REFUSED: Final = "address_refused"


def answered(result: Mapping[str, object], *, trust: Trust = Trust.UNSPECIFIED) -> ToolOutcome:
    """The tool did its work; `result` is what the model gets to see."""
    return ToolOutcome(text=compact_json(result), trust=trust)


def failed(code: str, error: str) -> ToolOutcome:
    """The tool did not; `error` is a sentence for the model, without secrets."""
    return ToolOutcome(text=compact_json({"error": error, "code": code}), code=code)
