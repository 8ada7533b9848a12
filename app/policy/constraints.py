"""Typed constraints: to which calls of its tool a remembered grant reaches (service.md 5).

A constraint looks at one value of a call's canonical arguments, found by a JSON pointer (RFC 6901).
What is missing, of another type, or written in a way that two programs could read differently does
not meet it: the grant then serves no such call, and a person is asked. So everything here fails
closed, and nothing is normalised: an address that has to be rewritten before it fits does not fit.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, TypeGuard, assert_never

if TYPE_CHECKING:
    from pydantic import JsonValue

ConstraintOp = Literal["equals", "one_of", "url_prefix", "range"]

POINTER_LENGTH: Final = 512
CHOICES: Final = 100
URL_LENGTH: Final = 2048

_LARGEST: Final = 2**53 - 1
_POINTER: Final = re.compile(r"(?:/(?:[^/~]|~[01])*)*")
_INDEX: Final = re.compile(r"0|[1-9][0-9]{0,9}")
_LABEL: Final = r"(?!xn--)[a-z0-9](?:[a-z0-9-]*[a-z0-9])?"
_SEGMENT: Final = r"(?!\.{1,2}(?:/|\?|\Z))[A-Za-z0-9._~!$&'()*+,=:@-]+"
# Left out on purpose: user information and fragments (they hide the host from a reader), capitals
# and IDNA in a host (look-alikes), "%", "\" and ";" in a path (servers differ in what they make of
# them), "." and ".." and empty segments. A port counts as written, the default one as well.
_ORIGIN: Final = rf"(?P<origin>https?://{_LABEL}(?:\.{_LABEL})*(?::[1-9][0-9]{{0,4}})?)"
_PLACE: Final = rf"{_ORIGIN}(?P<path>(?:/{_SEGMENT})*/?)"
_PREFIX: Final = re.compile(_PLACE)
_ADDRESS: Final = re.compile(rf"{_PLACE}(?:\?[A-Za-z0-9._~!$&'()*+,;=:@/?%-]*)?")


@dataclass(frozen=True, slots=True)
class Constraint:
    """One condition on the arguments. Raises ValueError where it could never be judged."""

    pointer: str
    op: ConstraintOp
    value: JsonValue

    def __post_init__(self) -> None:
        """Refuse what has no meaning, saying what was expected."""
        if len(self.pointer) > POINTER_LENGTH or not _POINTER.fullmatch(self.pointer):
            raise ValueError(
                f"pointer must be a JSON pointer (RFC 6901) of at most {POINTER_LENGTH} "
                f"characters: empty or beginning with '/', '~' only as '~0' or '~1', "
                f"not {self.pointer!r}"
            )
        match self.op:
            case "equals":
                pass
            case "one_of":
                _check_choices(self.value)
            case "url_prefix":
                _check_prefix(self.value)
            case "range":
                _check_range(self.value)
            case _:
                assert_never(self.op)

    def is_met(self, args: JsonValue) -> bool:
        """Whether the arguments of a call have, at the pointer, a value of the wanted kind."""
        return any(self._fits(found) for found in _found(args, self.pointer))

    def _fits(self, found: JsonValue) -> bool:
        match self.op:
            case "equals":
                return _same(found, self.value)
            case "one_of":
                return any(_same(found, choice) for choice in _items(self.value))
            case "url_prefix":
                return _lies_below(found, self.value)
            case "range":
                low, high = _items(self.value)
                return _is_between(found, low, high)
            case _:
                assert_never(self.op)


def all_met(constraints: tuple[Constraint, ...], args: JsonValue) -> bool:
    """Whether the arguments meet every one; none ask for nothing."""
    return all(constraint.is_met(args) for constraint in constraints)


def _check_choices(value: JsonValue) -> None:
    if not (isinstance(value, list) and 1 <= len(value) <= CHOICES):
        raise ValueError(f"one_of expects an array of 1 to {CHOICES} values")


def _check_prefix(value: JsonValue) -> None:
    if not (isinstance(value, str) and len(value) <= URL_LENGTH and _PREFIX.fullmatch(value)):
        raise ValueError(
            "url_prefix expects http:// or https://, a host in lower-case ASCII, optionally a port "
            "and a path of plain segments: no user, query, fragment, '%', '\\', ';', '.' or '..' "
            f"segment, IDNA or IPv6 host, at most {URL_LENGTH} characters"
        )


def _check_range(value: JsonValue) -> None:
    if isinstance(value, list) and len(value) == 2:
        low, high = value
        if _is_number(low) and _is_number(high) and -_LARGEST <= low <= high <= _LARGEST:
            return
    raise ValueError("range expects [low, high]: two numbers, low <= high, both included")


def _items(value: JsonValue) -> list[JsonValue]:
    """The array that the check at construction has seen."""
    return value if isinstance(value, list) else []


def _found(document: JsonValue, pointer: str) -> tuple[JsonValue, ...]:
    """The one value at the pointer, or none: null is a value, and absence is another thing."""
    found = document
    for part in pointer.split("/")[1:]:
        key = part.replace("~1", "/").replace("~0", "~")
        if isinstance(found, dict) and key in found:
            found = found[key]
        elif isinstance(found, list) and _INDEX.fullmatch(key) and int(key) < len(found):
            found = found[int(key)]
        else:
            return ()
    return (found,)


def _is_number(value: JsonValue) -> TypeGuard[int | float]:
    # For Python a bool is an int; for JSON it is no number.
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_between(found: JsonValue, low: JsonValue, high: JsonValue) -> bool:
    if not (_is_number(found) and _is_number(low) and _is_number(high)):
        return False
    return low <= found <= high


def _same(found: JsonValue, wanted: JsonValue) -> bool:
    """Equal as JSON: numbers by value, never a bool and a number, objects without an order."""
    if _is_number(found) and _is_number(wanted):
        return found == wanted
    if isinstance(found, list) and isinstance(wanted, list):
        return len(found) == len(wanted) and all(map(_same, found, wanted))
    if isinstance(found, dict) and isinstance(wanted, dict):
        return found.keys() == wanted.keys() and all(_same(found[k], wanted[k]) for k in found)
    return type(found) is type(wanted) and found == wanted


def _lies_below(found: JsonValue, prefix: JsonValue) -> bool:
    """Whether an address has the scheme, host and port of the prefix, and its leading segments."""
    if not (isinstance(found, str) and isinstance(prefix, str) and len(found) <= URL_LENGTH):
        return False
    address, place = _ADDRESS.fullmatch(found), _PREFIX.fullmatch(prefix)
    if address is None or place is None or address["origin"] != place["origin"]:
        return False
    wanted = _segments(place["path"])
    return _segments(address["path"])[: len(wanted)] == wanted


def _segments(path: str) -> list[str]:
    return [segment for segment in path.split("/") if segment]
