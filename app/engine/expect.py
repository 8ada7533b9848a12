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


def require(kind: type | UnionType, **arguments: object) -> None:
    """Raise `ValueError` unless every argument, given by its name, is of that kind."""
    for name, value in arguments.items():
        if isinstance(value, kind):
            continue
        expected = " or ".join(part.__name__ for part in get_args(kind) or (kind,))
        raise ValueError(f"{name}: expected {expected}, found {type(value).__name__}")


def require_all(kind: type | UnionType, **arguments: Iterable[object]) -> None:
    """Raise `ValueError` unless every argument is a tuple or list of values of that kind."""
    require(tuple | list, **arguments)
    for name, values in arguments.items():
        for index, value in enumerate(values):
            require(kind, **{f"{name}[{index}]": value})
