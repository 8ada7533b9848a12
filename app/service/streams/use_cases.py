"""Streams: how many may be open, what opens one, and how all of them end (service.md 7).

A stream is a socket or an SSE answer; both count. A place is taken before anything else is known,
its person is named once the token holds, and leaving the block frees both.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, assert_never

from app.log.envelope import Event
from app.service.refusals import Refusal
from app.service.streams.event_log import visible_log
from app.service.streams.hold import HoldRequest
from app.service.streams.subscriptions import CaughtUp, Demoted, Ended

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from app.service.caller import Caller
    from app.service.ports.database import Database
    from app.service.streams.event_log import Subject, VisibleLog
    from app.service.streams.hold import HoldGate
    from app.service.streams.subscriptions import Item, Subscription, Subscriptions


# How long the end of a run waits for a reader in lock-step that still acknowledges.
LAST_ACK_S: Final = 2.0


class TooManyStreams(Refusal):
    """The process or the principal has as many open streams as it may."""

    code = "rate.limited"


class AfterBeyondHead(Refusal):
    """A reader claims to have what was never written."""

    code = "stream.after"


class StreamsDraining(Refusal):
    """The process is going down and opens no stream."""

    code = "unavailable"


@dataclass(frozen=True, slots=True)
class StreamLimits:
    """How many streams may be open: in the process, and of one principal."""

    of_process: int
    of_principal: int


@dataclass(frozen=True, slots=True)
class Opening:
    """What a reader asks for; with a `window` it wants to hold the run to its own pace."""

    after: int = 0
    window: int | None = None


@dataclass(slots=True, eq=False)
class Place:
    """The place of one stream, from before its token is read until it is gone."""

    stop: Callable[[], None]
    person: tuple[str, str] | None = None


class Stream:
    """An open stream. One task pulls; `acknowledge` may come from another.

    `is_over` when its reader came back to the end of a run: there is nothing left to show.
    """

    def __init__(
        self,
        log: VisibleLog,
        opening: Opening,
        subscription: Subscription,
        *,
        hold: Callable[[int], None] | None,
    ) -> None:
        self.scope = log.scope
        self.head = log.head
        self.is_over = log.end is not None and opening.after >= log.end_seq
        self._subscription = subscription
        self._hold = hold
        self._taken: Item | None = None
        self._shown = opening.after
        self._acknowledged = opening.after
        self._heard = asyncio.Event()
        if log.end is not None and self.is_over:
            subscription.end(log.end)

    async def next(self) -> Item:
        """The next item. Cancelling is safe.

        Raises StoreUnavailable, and NotFound once the conversation was taken from the reader.
        """
        if self._taken is None:
            self._taken = await self._subscription.next()
        item = self._taken
        match item:
            case Event():
                self._shown = item.seq
            case Demoted():
                self._hold = None
            case Ended():
                await self._last_acknowledgement()
            case CaughtUp():
                pass
            case _:
                assert_never(item)
        self._taken = None
        return item

    def acknowledge(self, seq: int) -> None:
        """The reader has taken in everything up to `seq`; only one that holds is heard."""
        self._acknowledged = max(self._acknowledged, seq)
        self._heard.set()
        if self._hold is not None:
            self._hold(seq)

    async def _last_acknowledgement(self) -> None:
        """A reader in lock-step answers each event: the end, and the close, let it do so."""
        while self._hold is not None and self._acknowledged < self._shown:
            self._heard.clear()
            try:
                async with asyncio.timeout(LAST_ACK_S):
                    await self._heard.wait()
            except TimeoutError:
                return


class Streams:
    """Every open stream of this process."""

    def __init__(
        self,
        *,
        database: Database,
        subscriptions: Subscriptions,
        holds: HoldGate,
        limits: StreamLimits,
    ) -> None:
        self._database = database
        self._subscriptions = subscriptions
        self._holds = holds
        self._limits = limits
        self._places: set[Place] = set()
        self._by_person: Counter[tuple[str, str]] = Counter()
        self._draining = False
        self._empty = asyncio.Event()
        self._empty.set()

    @contextmanager
    def place(self, stop: Callable[[], None]) -> Iterator[Place]:
        """A place for the length of the block; `stop` is called, at most once, to empty it.

        Raises TooManyStreams and StreamsDraining.
        """
        if self._draining:
            raise StreamsDraining("the process is going down; connect to another")
        if len(self._places) >= self._limits.of_process:
            raise TooManyStreams(f"expected at most {self._limits.of_process} open streams")
        place = Place(stop)
        self._places.add(place)
        self._empty.clear()
        try:
            yield place
        finally:
            self._leave(place)

    def seat(self, place: Place, caller: Caller) -> None:
        """Count the place among its principal's. Raises TooManyStreams."""
        person = (caller.tenant, caller.principal)
        if self._by_person[person] >= self._limits.of_principal:
            bound = self._limits.of_principal
            raise TooManyStreams(f"expected at most {bound} open streams of a principal")
        self._by_person[person] += 1
        place.person = person

    @asynccontextmanager
    async def open(
        self, caller: Caller, subject: Subject, opening: Opening
    ) -> AsyncIterator[Stream]:
        """The stream for the length of the block.

        Raises ScopeMissing, NotFound and AfterBeyondHead.
        """

        async def look() -> VisibleLog:
            async with self._database.session(caller.tenant) as session:
                return await visible_log(session, caller, subject)

        log = await look()
        if opening.after > log.head:
            raise AfterBeyondHead(f"after is {opening.after}, the head of the log {log.head}")
        with ExitStack() as held:
            subscription = held.enter_context(
                self._subscriptions.follow(
                    caller.tenant, log.scope, after=opening.after, looked_at=log.head, look=look
                )
            )
            hold = None
            if opening.window is not None:
                request = HoldRequest(caller, log.scope, log.takes_part, opening.window)
                hold = held.enter_context(self._holds.holding(request, subscription.demote))
            yield Stream(log, opening, subscription, hold=hold)

    async def drain(self) -> None:
        """Stop every stream, open none any more, and wait until all are gone."""
        self._draining = True
        for place in tuple(self._places):
            place.stop()
        await self._empty.wait()

    def _leave(self, place: Place) -> None:
        self._places.discard(place)
        if place.person is not None:
            self._by_person[place.person] -= 1
            if not self._by_person[place.person]:
                del self._by_person[place.person]
        if not self._places:
            self._empty.set()
