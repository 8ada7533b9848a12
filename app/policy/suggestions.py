"""Typed constraints made of one call: they reach to it, and to others that do the same elsewhere.

What is suggested is wider than the call and no wider than can be read off it: an address stands
for what lies below it, a number for the numbers up to it, and everything else for itself. Only
beside an address, which says where the text goes, may a document be any other. Whether something
may be granted at all is not asked here.
"""

from __future__ import annotations

import re
from itertools import islice
from typing import TYPE_CHECKING, Final

from app.policy.constraints import Constraint, all_met

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pydantic import JsonValue

# Above it, a text of one line is taken for a document.
LINE_LENGTH: Final = 200
# A call of more parts than that is not looked at: what holds them all is more than anybody reads.
PARTS: Final = 64

_ADDRESS: Final = re.compile(r"https?://", re.IGNORECASE)
_DOCUMENT: Final = re.compile(r"\s*[{\[]|.*[\r\n]", re.DOTALL)
# What names someone or something is held: such a number is not the more the larger it is, and such
# a text is no document. A name that only ends like one of these is held too, which costs an offer.
_NAMING: Final = re.compile(
    r"(?i:.*(?:id|nr|number|account|iban|phone|user|chat|channel|recipients?|mail|address|host"
    r"|path|method))"
    r"|(?i:(?:.*[_-])?(?:no|to|cc|bcc))"
    r"|.*[a-z](?:No|To)",
    re.DOTALL,
)


def suggested(args: Mapping[str, JsonValue]) -> tuple[Constraint, ...]:
    """Constraints that the call meets and others may; none where there is nothing to widen."""
    leaves = list(islice(_leaves(dict(args), ""), PARTS + 1))
    if len(leaves) > PARTS:
        return ()
    goes_somewhere = any(_is_address(value) for _, value in leaves)
    try:
        found = tuple(
            _constraint(pointer, value)
            for pointer, value in leaves
            if not (goes_somewhere and _is_document(value) and not _names(pointer))
        )
    except ValueError:
        # An address or a pointer that no constraint can hold: what cannot be held is not offered.
        return ()
    is_wider = any(one.op != "equals" for one in found)
    return found if is_wider and all_met(found, dict(args)) else ()


def _leaves(value: JsonValue, pointer: str) -> Iterator[tuple[str, JsonValue]]:
    """What is not an object with members, by its place; an array is one value."""
    if not isinstance(value, dict) or not value:
        yield pointer, value
        return
    for key in sorted(value):
        token = key.replace("~", "~0").replace("/", "~1")
        yield from _leaves(value[key], f"{pointer}/{token}")


def _constraint(pointer: str, value: JsonValue) -> Constraint:
    """Raises ValueError where there is none."""
    # What a query says may be to whom, so an address with one stands for itself.
    if isinstance(value, str) and _is_address(value) and "?" not in value:
        return Constraint(pointer, "url_prefix", value)
    if isinstance(value, int | float) and not isinstance(value, bool) and not _names(pointer):
        return Constraint(pointer, "range", [min(0, value), max(0, value)])
    return Constraint(pointer, "equals", value)


def _is_address(value: JsonValue) -> bool:
    return isinstance(value, str) and _ADDRESS.match(value) is not None


def _is_document(value: JsonValue) -> bool:
    if not isinstance(value, str) or _is_address(value):
        return False
    return len(value) > LINE_LENGTH or _DOCUMENT.match(value) is not None


def _names(pointer: str) -> bool:
    return _NAMING.fullmatch(pointer.rpartition("/")[2]) is not None
