"""Mutations that cosmic-ray lacks: of `in`, and of conditions that it does not negate.

cosmic-ray finds `Mutations` by an entry point, which `bench.mutants` writes beside the program, and
runs it in its own environment: nodes are parso's, which is not installed in ours.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence


@dataclass(frozen=True, slots=True)
class Mutation:
    """An operator as cosmic-ray has them; it changes one of the children it finds in a node.

    cosmic-ray expects a class and makes an object of it; this is both.
    """

    found: Callable[[Any], list[Any]]
    change: Callable[[Any], None]

    def __call__(self) -> Mutation:
        return self

    def arguments(self) -> Sequence[Any]:
        """None: there is one way to do it."""
        return ()

    def mutation_positions(self, node: Any) -> Iterator[tuple[Any, Any]]:
        """From where to where each child stands that could be changed."""
        for child in self.found(node):
            yield child.start_pos, child.end_pos

    def mutate(self, node: Any, index: int) -> Any:
        """The node with one of them changed."""
        self.change(self.found(node)[index])
        return node


class Mutations:
    """The provider of all of them, by name."""

    def __iter__(self) -> Iterator[str]:
        return iter(_BY_NAME)

    def __getitem__(self, name: str) -> Mutation:
        return _BY_NAME[name]


def _memberships(node: Any) -> list[Any]:
    """Every other child of a comparison is what compares."""
    compared = node.children[1::2] if node.type == "comparison" else []
    return [child for child in compared if _text(child) in ("in", "not in")]


def _invert(child: Any) -> None:
    first = child.get_first_leaf()
    if first.value == "not":
        first.prefix = first.value = ""
    else:
        first.value = "not in"


def _conditions(node: Any) -> list[Any]:
    """Those after `elif` and in comprehensions; a bare `:=`, where a `not` alone is no Python."""
    if node.type not in ("if_stmt", "while_stmt", "comp_if"):
        return []
    return [
        child
        for before, child in pairwise(node.children)
        if _text(before) == "elif"
        or (_text(before) == "if" and node.type == "comp_if")
        or child.type == "namedexpr_test"
    ]


def _negate(child: Any) -> None:
    first, last = child.get_first_leaf(), child.get_last_leaf()
    first.value = f"not ({first.value}"
    last.value = f"{last.value})"


def _text(child: Any) -> str:
    text: str = child.get_code(include_prefix=False)
    return text


_BY_NAME: Final = {
    "InvertMembership": Mutation(_memberships, _invert),
    "NegateCondition": Mutation(_conditions, _negate),
}
