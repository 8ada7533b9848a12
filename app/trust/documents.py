"""The JSON that is signed: read by the engine's strict rules, and only ever in one form.

The types of members that several documents have are here as well.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar

from pydantic import AfterValidator, BaseModel, Field, ValidationError

from app.engine.json.arguments import MAX_DEPTH, canonical_bytes, strict_loads
from app.engine.json.pointer import pointer_to
from app.trust import base64url
from app.trust.refusal import Refused

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_M = TypeVar("_M", bound=BaseModel)

NONCE_BYTES: Final = 16
# How far another clock may be ahead of ours: what was signed later than that was not signed yet.
SKEW_S: Final = 60


def _nonce(text: str) -> str:
    if len(base64url.decode(text) or b"") != NONCE_BYTES:
        raise ValueError(f"must be base64url of {NONCE_BYTES} bytes")
    return text


# Not Literal[1], which takes `true` for 1.
FirstVersion = Annotated[int, Field(ge=1, le=1)]
Nonce = Annotated[str, AfterValidator(_nonce)]
# Up to the last second of the year 9999: beyond it no timestamp can be made of the field.
UnixSeconds = Annotated[int, Field(ge=0, le=253_402_300_799)]


def read_object(data: bytes, *, max_depth: int = MAX_DEPTH) -> dict[str, Any] | None:
    """The JSON object in `data`, or None: not UTF-8, no object, a member twice, NaN, too deep."""
    try:
        # Numbers may be large: tokens of other issuers carry claims that are none of our business.
        value = strict_loads(data, max_depth=max_depth, big_numbers=True)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def is_canonical(data: bytes) -> bool:
    """Whether `data` is the RFC 8785 form of the value it spells."""
    try:
        return canonical_bytes(strict_loads(data)) == data
    except ValueError:
        return False


def read_model(model: type[_M], data: bytes, *, max_depth: int = MAX_DEPTH) -> _M | Refused:
    """The `model` that the JSON object in `data` spells, or the first thing wrong with it."""
    if read_object(data, max_depth=max_depth) is None:
        return Refused("expected one JSON object with no member twice")
    return _validated(lambda: model.model_validate_json(data))


def match_model(model: type[_M], members: Mapping[str, Any]) -> _M | Refused:
    """The `model` that a JSON object already read makes, or the first thing wrong with it."""
    return _validated(lambda: model.model_validate(members))


def first_problem(error: ValidationError) -> tuple[str, str]:
    """The JSON pointer and the description of the first thing that pydantic found wrong."""
    first = error.errors(include_input=False, include_url=False, include_context=False)[0]
    pointer = pointer_to(first["loc"])
    return pointer, first["msg"].removeprefix("Value error, ")


def _validated(validate: Callable[[], _M]) -> _M | Refused:
    try:
        return validate()
    except ValidationError as error:
        pointer, problem = first_problem(error)
        return Refused(f"{pointer}: {problem}")
