"""JSON pointers (RFC 6901): writing and reading them, reading or replacing what they point at.

What they are applied to is never changed; a replacement is a copy that shares what stayed equal.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pydantic import JsonValue

_TOKENS: Final = re.compile(r"(?:/(?:[^~/]|~[01])*)*", re.DOTALL)
_INDEX: Final = re.compile(r"0|[1-9][0-9]{0,8}")


def pointer_token(name: str) -> str:
    """A member's name as it stands in a pointer."""
    return name.replace("~", "~0").replace("/", "~1")


def pointer_to(steps: Iterable[str | int]) -> str:
    """The pointer of these names and indices, the outermost first."""
    return "".join(f"/{pointer_token(str(step))}" for step in steps)


def pointer_tokens(pointer: str) -> tuple[str, ...]:
    """The names on the way, the outermost first; none for the whole. Raises ValueError."""
    if _TOKENS.fullmatch(pointer) is None:
        raise ValueError(f"{pointer!r} is no JSON pointer")
    return tuple(part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:])


def value_at(value: JsonValue, pointer: str) -> JsonValue:
    """What the pointer points at within `value`. Raises LookupError if there is nothing."""
    for token in pointer_tokens(pointer):
        value = _member(value, token)
    return value


def with_value_at(value: JsonValue, pointer: str, new: JsonValue) -> JsonValue:
    """`value` with `new` at the pointer: a member of an object may be added, of an array not.

    Raises LookupError where the way there does not exist.
    """
    return _with(value, pointer_tokens(pointer), new)


def _with(value: JsonValue, tokens: tuple[str, ...], new: JsonValue) -> JsonValue:
    if not tokens:
        return new
    token, *rest = tokens
    match value:
        case dict() if not rest:
            return {**value, token: new}
        case dict():
            return {**value, token: _with(_member(value, token), tuple(rest), new)}
        case list():
            inner = _with(_member(value, token), tuple(rest), new)
            at = int(token)
            return [*value[:at], inner, *value[at + 1 :]]
        case _:
            raise LookupError(f"nothing can be called {token!r} in what is there")


def _member(value: JsonValue, token: str) -> JsonValue:
    match value:
        case dict():
            return value[token]
        case list() if _INDEX.fullmatch(token):
            return value[int(token)]
        case _:
            raise LookupError(f"there is nothing called {token!r}")
