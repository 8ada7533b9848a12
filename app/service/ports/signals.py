"""Hints between processes, and who takes them."""

from __future__ import annotations

from abc import ABC, abstractmethod
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


class Listener(ABC):
    """Whoever is to know of every commit, of this process and of others."""

    def listen(self, signals: Signals) -> None:
        """Take the store's hints from now on."""
        signals.on_commit(self._committed)
        signals.on_head(self._moved)

    @abstractmethod
    def _committed(self, conversation_id: str, events: Sequence[Event]) -> None: ...

    @abstractmethod
    def _moved(self, conversation_id: str, head: int) -> None: ...
