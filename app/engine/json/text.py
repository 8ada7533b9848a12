"""JSON inside the engine: values that cannot change, their compact text, and reading wire text.

A JSON value that enters a model is checked and copied once, into `FrozenObject` and `FrozenArray`;
from then on it is shared, never copied, because nobody can change it. They are still a `dict` and
a `list`, so `json`, `orjson`, `jsonschema` and `==` treat them as such. Who wants to change one
calls `thaw` and changes the copy.

The bounds exist so that whatever a run holds can also be written and read back: no NaN, no lone
surrogate, no number that JSON readers refuse, no nesting deeper than `MAX_DEPTH`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from math import isfinite
from typing import TYPE_CHECKING, Annotated, Any, Final, NoReturn, TypeVar

from pydantic_core import core_schema
from typing_extensions import override

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_DEPTH: Final = 128
INVALID_JSON: Final = "invalid JSON"
_MAX_INTEGER_BITS: Final = 4096
_C = TypeVar("_C", bound=type)


def _refusing(*mutators: str) -> Callable[[_C], _C]:
    """Replace the named methods of a class by a refusal."""

    def refuse(*_args: object, **_kwargs: object) -> NoReturn:
        raise TypeError("a JSON value of the engine cannot be changed; change a thaw() of it")

    def decorate(cls: _C) -> _C:
        for name in mutators:
            setattr(cls, name, refuse)
        return cls

    return decorate


@_refusing(
    "__setitem__", "__delitem__", "__ior__", "clear", "pop", "popitem", "setdefault", "update"
)
class FrozenObject(dict[str, object]):
    """A JSON object that refuses every change."""

    __slots__ = ()

    @override
    def __reduce__(self) -> tuple[type[FrozenObject], tuple[dict[str, object]]]:
        return FrozenObject, (dict(self),)


@_refusing(
    "__setitem__",
    "__delitem__",
    "__iadd__",
    "__imul__",
    "append",
    "clear",
    "extend",
    "insert",
    "pop",
    "remove",
    "reverse",
    "sort",
)
class FrozenArray(list[object]):
    """A JSON array that refuses every change."""

    __slots__ = ()

    @override
    def __reduce__(self) -> tuple[type[FrozenArray], tuple[list[object]]]:
        return FrozenArray, (list(self),)


def freeze(value: object, depth: int = MAX_DEPTH) -> object:
    """An unchangeable copy of a JSON value. Raises `ValueError` if it is none or breaks a bound."""
    if value is None or isinstance(value, bool | FrozenObject | FrozenArray):
        return value
    if isinstance(value, str):
        return _checked_text(value)
    if isinstance(value, int | float):
        return _checked_number(value)
    if depth == 0:
        raise ValueError(f"JSON nested deeper than {MAX_DEPTH}")
    if isinstance(value, dict):
        return FrozenObject((_key(key), freeze(item, depth - 1)) for key, item in value.items())
    if isinstance(value, list):
        return FrozenArray(freeze(item, depth - 1) for item in value)
    raise ValueError(f"expected a JSON value, found {type(value).__name__}")


def freeze_object(value: object) -> FrozenObject:
    """`freeze` of a JSON object; anything else is a `ValueError`."""
    match freeze(value):
        case FrozenObject() as frozen:
            return frozen
        case other:
            raise ValueError(f"expected a JSON object, found {kind_of(other)}")


def thaw(value: object) -> Any:
    """A deep copy of a JSON value in plain, changeable dicts and lists."""
    if isinstance(value, dict):
        return {key: thaw(item) for key, item in value.items()}
    if isinstance(value, list):
        return [thaw(item) for item in value]
    return value


def compact_json(value: object) -> str:
    """The text of a JSON value without spaces, in insertion order. NaN is a `ValueError`."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def parse_json(text: str) -> object:
    """The frozen value of a JSON text; `ValueError` if it does not parse or breaks a bound."""
    try:
        return freeze(json.loads(text))
    except RecursionError:
        raise ValueError(f"JSON nested deeper than {MAX_DEPTH}") from None


def malformed_error(text: str) -> str | None:
    """Why `text` is not a JSON object, in the words of agent-run.md 2.2; None if it is one."""
    try:
        value = parse_json(text)
    except ValueError:
        return INVALID_JSON
    if isinstance(value, FrozenObject):
        return None
    return f"expected a JSON object, found {kind_of(value)}"


def kind_of(value: object) -> str:
    """The JSON name of a value's type."""
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int() | float():
            return "number"
        case str():
            return "string"
        case list():
            return "array"
        case dict():
            return "object"
        case _:
            return type(value).__name__


def _checked_text(text: str) -> str:
    if not text.isascii():
        text.encode()  # A lone surrogate raises UnicodeEncodeError, which is a ValueError.
    return text


def _checked_number(number: int | float) -> int | float:
    if isinstance(number, int):
        if number.bit_length() > _MAX_INTEGER_BITS:
            raise ValueError(f"expected an integer of at most {_MAX_INTEGER_BITS} bits")
    elif not isfinite(number):
        raise ValueError("expected a finite number")
    return number


def _key(key: object) -> str:
    match key:
        case str():
            return _checked_text(key)
        case _:
            raise ValueError(f"expected a text as the key of a JSON object, found {kind_of(key)}")


class _Frozen:
    """The pydantic marker of a JSON field: validated by `freeze`, written as it is."""

    def __init__(self, freezing: Callable[[object], object]) -> None:
        self._freezing = freezing

    def __get_pydantic_core_schema__(
        self, source: object, handler: object
    ) -> core_schema.CoreSchema:
        return core_schema.no_info_plain_validator_function(self._freezing)


JsonValue = Annotated[object, _Frozen(freeze)]
JsonObject = Annotated[Mapping[str, object], _Frozen(freeze_object)]
