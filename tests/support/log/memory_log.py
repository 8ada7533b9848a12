"""A conversation's log in memory, whose reads a test can interrupt.

It fulfils what a subscription asks of the port `Database`: pages, heads, and commits that are
heard here, heard elsewhere, or not heard of at all.
"""

from __future__ import annotations

from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, cast

from app.log.envelope import Event
from app.log.queries import LogScope
from app.policy.taint import Trust
from app.service.refusals import NotFound
from app.service.streams.subscriptions import Subscription, Subscriptions

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator, Sequence

    from app.service.ports.database import Database
    from app.service.ports.signals import Signals

RUN = LogScope("conv_1", "run_1")
CONVERSATION = LogScope("conv_1")

Heard = Literal["here", "elsewhere", "nowhere"]


@dataclass
class MemoryLog:
    """The hooks run around the snapshot that a page is read from, and before a look at the head."""

    id: str = "conv_1"
    events: list[Event] = field(default_factory=list)
    pages_read: int = 0
    before_read: Callable[[], None] = lambda: None
    after_read: Callable[[], None] = lambda: None
    before_head: Callable[[], None] = lambda: None
    on_look: Callable[[], None] = lambda: None
    looks: int = 0
    is_closed: bool = False

    def __post_init__(self) -> None:
        self._commit: list[Callable[[str, Sequence[Event]], None]] = []
        self._head: list[Callable[[str, int], None]] = []

    @property
    def database(self) -> Database:
        return cast("Database", self)

    @property
    def signals(self) -> Signals:
        return cast("Signals", self)

    def on_commit(self, heard: Callable[[str, Sequence[Event]], None]) -> None:
        self._commit.append(heard)

    def on_head(self, heard: Callable[[str, int], None]) -> None:
        self._head.append(heard)

    def append(
        self,
        event_type: str = "text.delta",
        *,
        run_id: str | None = "run_1",
        size: int = 10,
        heard: Heard = "here",
    ) -> Event:
        """Commit one event."""
        return self.commit([self.event(event_type, run_id=run_id, size=size)], heard=heard)[0]

    def event(
        self, event_type: str = "text.delta", *, run_id: str | None = "run_1", size: int = 10
    ) -> Event:
        """An event that has the next seq and is not committed yet."""
        seq = len(self.events) + 1
        return Event(self.id, seq, run_id, None, None, event_type, Trust.UNSPECIFIED, b"x" * size)

    def commit(self, events: list[Event], *, heard: Heard = "here") -> list[Event]:
        """Commit events in one go."""
        self.events.extend(events)
        if heard == "here":
            self.tell(events)
        elif heard == "elsewhere":
            for head in self._head:
                head(self.id, events[-1].seq)
        return events

    def tell(self, events: list[Event]) -> None:
        """Let this process hear of a commit."""
        for commit in self._commit:
            commit(self.id, events)

    async def look(self) -> None:
        """Whether the reader may still read. Raises NotFound where the log is closed to it."""
        self.looks += 1
        self.on_look()
        if self.is_closed:
            raise NotFound("conversation")

    @asynccontextmanager
    async def session(self, _tenant: str) -> AsyncIterator[_Session]:
        yield _Session(self)


@dataclass(frozen=True, slots=True)
class _Session:
    log: MemoryLog

    async def events(self, scope: LogScope, *, after: int, limit: int) -> list[Event]:
        self.log.before_read()
        page = [
            event
            for event in self.log.events
            if event.seq > after and scope.run_id in (None, event.run_id)
        ][:limit]
        self.log.pages_read += 1
        self.log.after_read()
        return page

    async def head(self, _scope: LogScope) -> int:
        self.log.before_head()
        return len(self.log.events)


@contextmanager
def following(
    log: MemoryLog, scope: LogScope = RUN, *, after: int = 0, looked_at: int = 0
) -> Iterator[Subscription]:
    """A subscription to the log, fed by its signals."""
    all_of_them = Subscriptions(log.database)
    all_of_them.listen(log.signals)
    with all_of_them.follow(
        "acme", scope, after=after, looked_at=looked_at, look=log.look
    ) as subscription:
        yield subscription
