"""The tool specs of one turn, pinned (turn.md 3.2); only the escape hatch appends to them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.policy.taint import highest
from app.turn.texts import RESERVED

if TYPE_CHECKING:
    from collections.abc import Iterable

    from app.policy.taint import Trust
    from app.turn.ports import ToolSpec


class PinnedSpecs:
    """What the model is offered, in order: an executor's specs, then the turn's own.

    A spec under a reserved name is never an executor's.
    """

    def __init__(self, offered: Iterable[ToolSpec], own: Iterable[ToolSpec] = ()) -> None:
        self._by_name = {spec.name: spec for spec in offered if spec.name not in RESERVED}
        self._by_name |= {spec.name: spec for spec in own}

    def __contains__(self, name: str) -> bool:
        return name in self._by_name

    @property
    def all(self) -> tuple[ToolSpec, ...]:
        """The specs as every request of the turn shows them."""
        return tuple(self._by_name.values())

    @property
    def names(self) -> frozenset[str]:
        """The advertised names."""
        return frozenset(self._by_name)

    @property
    def trust(self) -> Trust:
        """The tag of all descriptions together."""
        return highest(spec.trust for spec in self._by_name.values())

    def get(self, name: str) -> ToolSpec | None:
        """The pinned spec of that name."""
        return self._by_name.get(name)

    def append(self, found: Iterable[ToolSpec]) -> tuple[ToolSpec, ...]:
        """Add specs at the end; those that are new."""
        new = tuple(
            spec for spec in found if spec.name not in self._by_name and spec.name not in RESERVED
        )
        self._by_name.update({spec.name: spec for spec in new})
        return new
