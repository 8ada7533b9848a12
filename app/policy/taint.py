"""The one label that says where content came from (turn.md 5.5).

Labels join to the highest and never drop. A byte or name this version does not know is
corruption, not a default, so it raises.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable


class Trust(IntEnum):
    """A trust tag, ordered by severity. The value is the stored byte."""

    UNSPECIFIED = 0
    TRUSTED_USER = 1
    QUARANTINED_CONTENT = 2

    @property
    def wire(self) -> str:
        """The lower-case name used on the wire."""
        return self.name.lower()

    @property
    def taints(self) -> bool:
        """Whether content with this tag taints the run that reads it."""
        return self is Trust.QUARANTINED_CONTENT

    @classmethod
    def from_byte(cls, byte: int) -> Trust:
        """The tag stored as `byte`. Raises ValueError for an unknown byte."""
        try:
            return cls(byte)
        except ValueError as error:
            raise ValueError(f"unknown trust tag {byte!r}") from error

    @staticmethod
    def from_wire(name: str) -> Trust:
        """The tag of that wire name. Raises ValueError for any other text."""
        if (tag := _BY_WIRE.get(name)) is None:
            raise ValueError(f"unknown trust tag {name!r}")
        return tag


_BY_WIRE: Final = {tag.wire: tag for tag in Trust}


def tag_of_answer(*, has_own_words: bool, is_principals_own: bool) -> Trust:
    """The tag of what a person answered: an option is trusted, own words are the principal's alone.

    `is_principals_own`: the run's principal said it, in a conversation of theirs.
    """
    is_trusted = is_principals_own or not has_own_words
    return Trust.TRUSTED_USER if is_trusted else Trust.QUARANTINED_CONTENT


def highest(tags: Iterable[Trust]) -> Trust:
    """The join of all tags; of none at all, `unspecified`, its neutral element."""
    return max(tags, default=Trust.UNSPECIFIED)
