"""Texts for a prompt: JSON that nothing inside it can close, and texts cut to a bound. Pure.

run-context.md 3.3, 8.2, 8.3.
"""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Final

from app.engine.json.pointer import pointer_token
from app.errors import TurngateError

if TYPE_CHECKING:
    from pydantic import JsonValue

MAX_DEPTH: Final = 64
MAX_TEXT_BYTES: Final = 2048
_CUT: Final = "…[truncated]"


class PromptBlockUnserializable(TurngateError):
    """A value of a block is no JSON; the message names the block and where in it."""


class _Defect(ValueError):
    """Where the value is not JSON, as a pointer."""


def prompt_json(value: JsonValue) -> str:
    """Compact JSON with sorted keys, `</` written `<\\/`. Raises PromptBlockUnserializable."""
    return block_json("the value", value)


def block_json(block: str, value: JsonValue) -> str:
    """The prompt JSON of what one block shows. Raises PromptBlockUnserializable, which names it."""
    try:
        sound = _sound(value, "", 1)
    except _Defect as defect:
        raise PromptBlockUnserializable(f"{block} holds no JSON at {defect}") from None
    text = json.dumps(
        sound, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    )
    return text.replace("</", "<\\/")


def cap_text(text: str) -> str:
    """At most 2048 bytes of the text in UTF-8, whole code points, then the mark that it was cut."""
    sound = without_surrogates(text)
    raw = sound.encode()
    if len(raw) <= MAX_TEXT_BYTES:
        return sound
    return raw[:MAX_TEXT_BYTES].decode(errors="ignore") + _CUT


def without_surrogates(text: str) -> str:
    """The text, with U+FFFD for each lone surrogate."""
    if text.isascii():
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _sound(value: object, at: str, depth: int) -> JsonValue:
    """The value as plain JSON; a cycle ends at the greatest depth."""
    match value:
        case str():
            return without_surrogates(value)
        case None | bool() | int():
            return value
        case float() if math.isfinite(value):
            return value
        case dict() if depth <= MAX_DEPTH and all(isinstance(key, str) for key in value):
            return {
                without_surrogates(key): _sound(member, f"{at}/{pointer_token(key)}", depth + 1)
                for key, member in value.items()
            }
        case list() if depth <= MAX_DEPTH:
            return [_sound(item, f"{at}/{place}", depth + 1) for place, item in enumerate(value)]
        case _:
            raise _Defect(at or "/")
