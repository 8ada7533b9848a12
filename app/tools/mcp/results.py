"""What came of a request to a server, and how the model sees the answer to a call."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from app.tools.outcomes import TOOL_FAILED, answered, failed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from app.turn.ports import ToolOutcome

OUTCOME_UNKNOWN: Final = "outcome_unknown"
MAX_ERROR_CHARS: Final = 2000


class Lost(Exception):
    """The connection ended with the request under way: what came of it is not known."""


class NotTaken(Exception):
    """The server did not take the request; it may be sent again."""


class Refused(Exception):
    """The server answered that it will not; the message is its own, at any length."""


@dataclass(frozen=True, slots=True)
class Answered:
    """A server's answer to a call: content blocks in the protocol's form, and a JSON value."""

    blocks: Sequence[Mapping[str, Any]]
    structured: Any = None
    is_error: bool = False


def outcome_of(answer: Answered) -> ToolOutcome:
    """The result for the model: text as it is, a JSON value only if there is no text.

    Servers repeat the value in the text. Of what is no text the kind and the size are told.
    """
    shown = [_shown(block) for block in answer.blocks]
    texts = [block["text"] for block in shown if block.keys() == {"text"}]
    if answer.is_error:
        return failed(TOOL_FAILED, cut("\n".join(texts)) or "the tool failed and did not say why")
    if not shown and answer.structured is not None:
        return answered({"structured": answer.structured})
    if len(texts) == len(shown):
        return answered({"text": "\n".join(texts)})
    return answered({"content": shown})


def cut(text: str) -> str:
    """The beginning of what a server says of itself."""
    return text if len(text) <= MAX_ERROR_CHARS else text[:MAX_ERROR_CHARS] + "…"


def _shown(block: Mapping[str, Any]) -> dict[str, Any]:
    match block:
        case {"type": "text", "text": str(text)}:
            return {"text": text}
        case {"type": "resource", "resource": {"text": str(text)}}:
            return {"text": text}
        case {"type": "resource_link", "uri": uri}:
            return {"type": "resource_link", "uri": uri, "name": block.get("name")}
        case {"type": str(kind), "data": str(data)}:
            size = len(data) * 3 // 4
            return {"type": kind, "mime": block.get("mimeType"), "size_bytes": size}
        case _:
            return {"type": str(block.get("type"))}
