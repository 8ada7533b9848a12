"""Upcasters: stored `data` of an older release, put into the words of this one.

A field that is added with a default needs none. Any other change of a type's data gets an upcaster
here, keyed by the type, and a golden log of the older release that a test reads. An upcaster knows
the older shape when it sees it and leaves the present one alone, so it may see both. The stored
bytes never change: what is hashed and signed is what was written.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

Upcaster = Callable[[dict[str, Any]], dict[str, Any]]

# Oldest first: each takes the data from one shape to the next.
UPCASTERS: Final[Mapping[str, tuple[Upcaster, ...]]] = {}


def upcast(
    event_type: str,
    data: dict[str, Any],
    *,
    upcasters: Mapping[str, tuple[Upcaster, ...]] = UPCASTERS,
) -> dict[str, Any]:
    """The data of an event in the shape of this release."""
    for step in upcasters.get(event_type, ()):
        data = step(data)
    return data
