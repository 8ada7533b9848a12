"""Arguments of the wrong type, refused before anything else is looked at."""

from __future__ import annotations

from typing import TYPE_CHECKING, get_args

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import UnionType


def members(union: object) -> UnionType:
    """The classes of a discriminated union, for `isinstance`."""
    found: UnionType = get_args(union)[0]
    return found


def require(value: object, kind: type | UnionType, name: str) -> None:
    """Raise `ValueError` unless the argument `name` is of that kind."""
    if isinstance(value, kind):
        return
    expected = " or ".join(part.__name__ for part in get_args(kind) or (kind,))
    raise ValueError(f"{name}: expected {expected}, found {type(value).__name__}")


def require_all(values: Iterable[object], kind: type | UnionType, name: str) -> None:
    """Raise `ValueError` unless the argument `name` is a tuple or list of that kind."""
    require(values, tuple | list, name)
    for index, value in enumerate(values):
        require(value, kind, f"{name}[{index}]")
