"""What a client attached to a run, in the external tier under one key (run-context.md 3.9). Pure.

A client chooses neither the tier nor the key, so nothing it sends can pass for what was recalled.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from app.engine.json.arguments import JsonDefect, strict_loads
from app.errors import TurngateError
from app.policy.taint import Trust
from app.runctx.memory import MemoryBlocks

if TYPE_CHECKING:
    from pydantic import JsonValue

CALLER_SUPPLIED: Final = "caller_supplied"
MAX_NESTING: Final = 32


class CallerMemoryInvalid(TurngateError):
    """What the caller attached is no JSON value to be shown; the message never quotes it."""


class CallerMemoryTierShape(TurngateError):
    """The external tier has no room for the caller's memory."""


def compose_caller_memory(
    blocks: MemoryBlocks | None,
    raw: bytes | str | None,
    *,
    trust: Trust = Trust.QUARANTINED_CONTENT,
) -> MemoryBlocks | None:
    """The blocks with the caller's JSON beside what was recalled; the given ones stay as they are.

    Raises CallerMemoryInvalid, CallerMemoryTierShape.
    """
    if not raw:
        return blocks
    supplied = _parsed(raw)
    if blocks is None:
        return MemoryBlocks({CALLER_SUPPLIED: supplied}, None, max(Trust.TRUSTED_USER, trust))
    external = _with_supplied(blocks.external, supplied)
    return MemoryBlocks(external, blocks.conversation, max(blocks.trust, trust))


def _parsed(raw: bytes | str) -> JsonValue:
    try:
        value = strict_loads(raw, max_depth=MAX_NESTING, big_numbers=True)
    except JsonDefect:
        # Where the flaw is would quote keys.
        raise CallerMemoryInvalid("expected caller memory to be sound JSON") from None
    if value is None:
        raise CallerMemoryInvalid("expected a value as caller memory, found null")
    return value


def _with_supplied(external: JsonValue, supplied: JsonValue) -> JsonValue:
    match external:
        case None:
            return {CALLER_SUPPLIED: supplied}
        case dict() if CALLER_SUPPLIED not in external:
            return {**external, CALLER_SUPPLIED: supplied}
        case dict():
            raise CallerMemoryTierShape(f"the external tier has {CALLER_SUPPLIED!r} already")
        case other:
            found = type(other).__name__
            raise CallerMemoryTierShape(f"expected a mapping as external tier, found {found}")
