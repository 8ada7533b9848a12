"""The JSON that is signed: read strictly, written in the one form of RFC 8785."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Never

import rfc8785

if TYPE_CHECKING:
    from pydantic import ValidationError


def read_object(data: bytes) -> dict[str, Any] | None:
    """The JSON object in `data`, or None: not UTF-8, no object, a member twice, NaN, too deep."""
    try:
        value = _load(data)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def canonical(value: Any) -> bytes:
    """The RFC 8785 bytes of a JSON value. Raises `ValueError` where it has none (2^53, NaN)."""
    return rfc8785.dumps(value)


def is_canonical(data: bytes) -> bool:
    """Whether `data` is the RFC 8785 form of the value it spells."""
    try:
        return canonical(_load(data)) == data
    except (ValueError, RecursionError):
        return False


def first_problem(error: ValidationError) -> tuple[str, str]:
    """The JSON pointer and the description of the first thing that pydantic found wrong."""
    first = error.errors(include_input=False, include_url=False, include_context=False)[0]
    return "".join(f"/{part}" for part in first["loc"]), first["msg"]


def _load(data: bytes) -> Any:
    return json.loads(
        data.decode(), object_pairs_hook=_each_member_once, parse_constant=_no_constant
    )


def _each_member_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("a member name occurs twice")
    return members


def _no_constant(name: str) -> Never:
    raise ValueError(f"{name} is not JSON")
