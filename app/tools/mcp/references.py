"""Whether a stranger's schema can be evaluated in bounded time: its references, all resolved.

Patterns for the names of members are refused as well: not every keyword that reads them can be
given up on.

A few lines of references to references stand for more schema than anybody could evaluate, and one
that refers to itself for as much as its arguments ask for. Both are refused where they are listed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

from app.engine.json.pointer import value_at

if TYPE_CHECKING:
    from collections.abc import Mapping

# Parts of a schema, every reference counted as what it stands for.
MAX_PARTS: Final = 20_000
_IN_PROGRESS: Final = -1
_NOT_IN_IT: Final = "it refers to what is not in it"
# Names and scopes other than the document's own paths could hide what a reference stands for.
_ELSEWHERE: Final = frozenset({"$id", "$anchor", "$dynamicRef", "$dynamicAnchor", "$recursiveRef"})


class Unbounded(ValueError):
    """The schema cannot be evaluated in bounded time; the message says why."""


def require_bounded(schema: Mapping[str, Any]) -> None:
    """Raises Unbounded, and RecursionError for what is nested beyond reason."""
    inner = {name: part for name, part in schema.items() if name != "$id"}
    if _Parts(inner).count(inner) > MAX_PARTS:
        raise Unbounded("its references stand for too much")


class _Parts:
    """Counts the parts of a schema, each counted once however often it is referred to."""

    def __init__(self, root: dict[str, Any]) -> None:
        self._root = root
        self._counts: dict[int, int] = {}

    def count(self, part: Any) -> int:
        if not isinstance(part, dict | list):
            return 0
        known = self._counts.get(id(part))
        if known == _IN_PROGRESS:
            raise Unbounded("it refers to itself")
        if known is not None:
            return known
        self._counts[id(part)] = _IN_PROGRESS
        found = self._counts[id(part)] = 1 + self._beneath(part)
        return found

    def _beneath(self, part: dict[str, Any] | list[Any]) -> int:
        if isinstance(part, list):
            return sum(map(self.count, part))
        if "patternProperties" in part:
            raise Unbounded("it has patterns for names")
        if not _ELSEWHERE.isdisjoint(part):
            raise Unbounded("it has names of its own for its parts")
        beneath = sum(map(self.count, part.values()))
        reference = part.get("$ref")
        return beneath + (self.count(self._at(reference)) if isinstance(reference, str) else 0)

    def _at(self, reference: str) -> Any:
        """The part of the document that a reference names by its place, as validators find it."""
        if not reference.startswith("#"):
            raise Unbounded(_NOT_IN_IT)
        try:
            return value_at(self._root, unquote(reference[1:]))
        except (LookupError, ValueError):
            raise Unbounded(_NOT_IN_IT) from None
