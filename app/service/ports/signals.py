"""Hints between processes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from app.log.envelope import Event


class Signals(Protocol):
    """Hints that something was committed. They carry no promise: readers read by seq."""

    def on_commit(self, heard: Callable[[str, Sequence[Event]], None]) -> None:
        """Called in this process right after a commit with the events it added."""
        ...

    def on_head(self, heard: Callable[[str, int], None]) -> None:
        """Called with (conversation id, head) for commits of other processes."""
        ...
