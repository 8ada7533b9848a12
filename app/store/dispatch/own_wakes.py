"""Wakes that a process gives to its own worker, as soon as they are committed.

Their jobs are in the queue as all others are, in the same transaction, but for a second nobody is
to take them: the process that committed them tries its claim at once, and takes the job out of the
queue. If it dies before, the job is any worker's. So a wake has the same durable path on either
way, and a run that starts where it was woken does not go through the queue's dispatch.
"""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

GRACE: Final = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class OwnWake:
    """A committed wake, and its job in the queue."""

    conversation_id: str
    job_id: int


@dataclass(frozen=True, slots=True)
class _Worker:
    """The worker of this process: whether it could drive one more run now, and how it is woken."""

    has_room: Callable[[], bool]
    wake: Callable[[OwnWake], None]


class OwnWakes:
    """The way from a commit to the worker of the same process, if it has one."""

    def __init__(self) -> None:
        self._worker: _Worker | None = None
        self._told: Counter[int] = Counter()

    @contextmanager
    def taken(
        self, wake: Callable[[OwnWake], None], *, has_room: Callable[[], bool]
    ) -> Iterator[None]:
        """Give wakes to this worker while it has room, until the block ends."""
        self._worker = _Worker(has_room, wake)
        try:
            yield
        finally:
            self._worker = None

    @property
    def have_room(self) -> bool:
        """Whether a wake that is enqueued now should be left to this process."""
        return self._worker is not None and self._worker.has_room()

    def expect(self, backend: int) -> None:
        """The next notification from that backend, whose commit is to follow, tells no news."""
        self._told[backend] += 1

    def is_news(self, backend: int) -> bool:
        """Whether a notification from that backend is about other wakes than these."""
        if not self._told[backend]:
            return True
        self._told[backend] -= 1
        return False

    def listen_anew(self) -> None:
        """Expect nothing: what was notified before is not heard any more."""
        self._told.clear()

    def give(self, wake: OwnWake) -> None:
        """Wake the worker; without one the job is left to the others."""
        if self._worker is not None:
            self._worker.wake(wake)
