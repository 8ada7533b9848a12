"""Subscriptions: one reader's way through the log, without a gap and without a repeat.

A subscription is pulled. `next()` hands out what the log holds after a seq, one item at a time,
and waits when there is nothing. What it hands out comes from an outbox, which is always a window
of the log: it starts where the reader is and is contiguous up to `_tail`.

1. A commit of this process that continues the window is put there as it is. The live path reads
   nothing from the database.
2. A commit that does not continue it, or for which the outbox has no room, is only remembered as
   the newest head. The reader is behind then, and pages from the log once the outbox is empty.
3. Heads of other processes, and the poll for hints that were lost, work in the same way.
4. Whatever was heard was committed before. So a page read after hearing of head H that comes back
   short holds everything up to H, and the window is complete up to there.
5. Who may read a conversation can change while it is read. Before anything else is handed out the
   reader's reach is looked up again: where an update of the conversation was read or heard, and
   where a page of a run leaves out numbers, any of which may have been one.

The outbox is bounded by bytes. A slow reader costs its bound and nothing more: the log waits.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from typing_extensions import override

from app.errors import StoreUnavailable
from app.log.catalogue import TERMINAL
from app.log.envelope import Event
from app.log.queries import LogScope
from app.log.runs import ConversationUpdated
from app.service.ports.signals import Listener

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Sequence

    from app.service.ports.database import Database

OUTBOX_BYTES: Final = 1024 * 1024
PAGE_EVENTS: Final = 256
PAGE_BYTES: Final = 256 * 1024
# Without a hint the head is looked up after one second, then less often while nothing happens.
FIRST_POLL_S: Final = 1.0
LONGEST_POLL_S: Final = 4.0

HoldEnd = Literal["timeout", "forbidden", "cooldown"]


@dataclass(frozen=True, slots=True)
class CaughtUp:
    """The reader has had everything that is committed; said once."""


@dataclass(frozen=True, slots=True)
class Ended:
    """The run is over and its terminal event was handed out; nothing follows."""

    status: str


@dataclass(frozen=True, slots=True)
class Demoted:
    """The reader no longer holds the run back."""

    reason: HoldEnd


Item: TypeAlias = Event | CaughtUp | Ended | Demoted


class Subscription:
    """The events of a run or a conversation after a seq; one task pulls, and it alone.

    `look` looks up whether the reader still has reach, and raises where it has none; that they had
    it where the log reached up to `looked_at` is known.
    """

    def __init__(
        self,
        database: Database,
        *,
        tenant: str,
        scope: LogScope,
        after: int,
        looked_at: int,
        look: Callable[[], Awaitable[object]],
    ) -> None:
        self.scope = scope
        self._database = database
        self._tenant = tenant
        self._look = look
        self._looked_at = looked_at
        self._updates = 0
        self._updates_looked_at = 0
        self._outbox: deque[Event] = deque()
        self._outbox_bytes = 0
        self._notes: deque[Demoted] = deque()
        self._tail = after
        self._head = after
        self._page_events = PAGE_EVENTS
        self._poll_s = FIRST_POLL_S
        self._more_in_log = True
        self._was_live = False
        self._end: Ended | None = None
        self._stirred = asyncio.Event()

    async def next(self) -> Item:
        """The next item. Cancelling is safe: nothing is taken that is not returned.

        Raises StoreUnavailable; the subscription may be pulled again afterwards. Whatever `look`
        raises is raised here, each time.
        """
        while True:
            await self._look_where_updated()
            if self._notes:
                return self._notes.popleft()
            if self._outbox:
                return self._take()
            if self._end is not None:
                return self._end
            if self._more_in_log or self._head > self._tail:
                await self._read_page()
            elif not self._was_live:
                self._was_live = True
                return CaughtUp()
            else:
                await self._wait()

    def heard(self, events: Sequence[Event]) -> None:
        """A commit of this process: taken into the outbox if it continues the window and fits."""
        if any(event.type == ConversationUpdated.TYPE for event in events):
            self._updates += 1
        if events[0].seq <= self._tail + 1:
            fresh = [event for event in events if event.seq > self._tail and self._wants(event)]
            size = sum(len(event.body) for event in fresh)
            if self._outbox_bytes + size <= OUTBOX_BYTES:
                self._put(fresh)
                self._tail = max(self._tail, events[-1].seq)
        self.moved(events[-1].seq)

    def moved(self, head: int) -> None:
        """The log is known to reach up to `head`."""
        self._head = max(self._head, head)
        self._stirred.set()

    def demote(self, reason: HoldEnd) -> None:
        """Tell the reader, before any further event, that it holds nothing any more."""
        self._notes.append(Demoted(reason))
        self._stirred.set()

    def end(self, status: str) -> None:
        """Nothing follows: the run was over at the seq where the reader starts."""
        self._end = Ended(status)

    async def _look_where_updated(self) -> None:
        while self._updates_looked_at < (updates := self._updates):
            await self._look()
            self._updates_looked_at = updates

    def _wants(self, event: Event) -> bool:
        return self.scope.run_id is None or event.run_id == self.scope.run_id

    def _put(self, events: Sequence[Event]) -> None:
        self._outbox.extend(events)
        self._outbox_bytes += sum(len(event.body) for event in events)

    def _take(self) -> Event:
        event = self._outbox.popleft()
        self._outbox_bytes -= len(event.body)
        if self.scope.run_id is not None and event.type in TERMINAL:
            self._end = Ended(event.type.removeprefix("run."))
        return event

    async def _read_page(self) -> None:
        head, after, limit = self._head, self._tail, self._page_events
        async with self._database.session(self._tenant) as session:
            page = await session.events(self.scope, after=after, limit=limit)
        self._more_in_log = len(page) == limit
        # Commits may have continued the window while the page was on its way.
        self._put([event for event in page if event.seq > self._tail])
        covered = page[-1].seq if page else after
        if not self._more_in_log:
            covered = max(covered, head)
        if covered > self._looked_at and _may_update(page, of=covered - after):
            self._updates += 1
        self._tail = max(self._tail, covered)
        self._fit_page_to_bytes(page)

    def _fit_page_to_bytes(self, page: Sequence[Event]) -> None:
        size = sum(len(event.body) for event in page)
        if size > 0:
            fitting = len(page) * PAGE_BYTES // size
            self._page_events = max(1, min(PAGE_EVENTS, fitting))

    async def _wait(self) -> None:
        self._stirred.clear()
        try:
            async with asyncio.timeout(self._poll_s):
                await self._stirred.wait()
        except TimeoutError:
            self._poll_s = min(self._poll_s * 2, LONGEST_POLL_S)
            await self._look_up_head()
        else:
            self._poll_s = FIRST_POLL_S

    async def _look_up_head(self) -> None:
        # A reader that waits has everything it knows of, so it sits an outage out.
        with suppress(StoreUnavailable):
            async with self._database.session(self._tenant) as session:
                self.moved(await session.head(LogScope(self.scope.conversation_id)))


def _may_update(page: Sequence[Event], *, of: int) -> bool:
    """Whether the conversation was updated in the page, or may have been in what it leaves out."""
    return of > len(page) or any(event.type == ConversationUpdated.TYPE for event in page)


class Subscriptions(Listener):
    """The subscriptions of this process by conversation, fed from the store's signals."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._following: defaultdict[str, set[Subscription]] = defaultdict(set)

    @contextmanager
    def follow(
        self,
        tenant: str,
        scope: LogScope,
        *,
        after: int,
        looked_at: int,
        look: Callable[[], Awaitable[object]],
    ) -> Iterator[Subscription]:
        """A subscription that is fed for the length of the block."""
        subscription = Subscription(
            self._database,
            tenant=tenant,
            scope=scope,
            after=after,
            looked_at=looked_at,
            look=look,
        )
        following = self._following[scope.conversation_id]
        following.add(subscription)
        try:
            yield subscription
        finally:
            following.discard(subscription)
            if not following:
                self._following.pop(scope.conversation_id, None)

    @override
    def _committed(self, conversation_id: str, events: Sequence[Event]) -> None:
        for subscription in self._following.get(conversation_id, ()):
            subscription.heard(events)

    @override
    def _moved(self, conversation_id: str, head: int) -> None:
        for subscription in self._following.get(conversation_id, ()):
            subscription.moved(head)
