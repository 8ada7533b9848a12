"""The appender: it groups what all runs of this process want to append.

Callers await their commit; a group is one statement and one transaction. There are lanes, each with
a connection of its own: while the database writes the group of one, another numbers and hashes the
next. A conversation is in one lane at a time. Cancelling a caller is safe: its events are committed
or they are not. A fault in one conversation's events fails that conversation alone, and a lost
connection is answered by asking the log what was committed.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from app.errors import LeaseLost, StoreUnavailable
from app.log.catalogue import TERMINAL
from app.store.dispatch.wakes import enqueue_wakes
from app.store.log.append import Answer, Outcome, later_rounds, write, write_later_rounds
from app.store.log.numbering import UnderLease, numbered
from app.store.log.tails import read_tails
from app.store.rows.ready import READY_AMONG
from app.store.server.connections import LOST, PASSING
from app.store.server.row_security import every_tenant

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

    from app.log.envelope import Event, NewEvent
    from app.store.log.numbering import Batch, Sealer
    from app.store.log.tails import Tails
    from app.store.server.connections import Connection, SteadyConnection

LANES: Final = 2
# What waits is shared among the lanes, but a group this small is not worth being divided.
LEAST_EVENTS: Final = 64
MOST_EVENTS: Final = 500
BUSY_WAIT_S: Final = 0.002
PASSING_WAIT_S: Final = 0.02

# Waits for whoever is still writing there.
_SETTLED: Final = """
SELECT FROM conversations WHERE id = ANY($1::text[]) ORDER BY id FOR NO KEY UPDATE"""
_COMMITTED: Final = "SELECT hash FROM events WHERE conversation_id = $1 AND seq = $2"


@dataclass(frozen=True, slots=True)
class _Request:
    """One caller's events, and where it waits for them."""

    conversation_id: str
    events: tuple[NewEvent, ...]
    at: datetime
    generation: int
    releases: bool
    answer: asyncio.Future[list[Event]]


_Group = dict[str, list[_Request]]


class Appender:
    """Appends for leases. `run` must be running; `close` fails whoever waits still."""

    def __init__(
        self,
        lanes: Sequence[SteadyConnection],
        tails: Tails,
        *,
        seal: Sealer,
        committed: Callable[[str, Sequence[Event]], None],
    ) -> None:
        self._seal = seal
        self._lanes = lanes
        self._tails = tails
        self._committed = committed
        self._waiting: deque[_Request] = deque()
        self._parked: set[str] = set()
        self._in_hand: set[str] = set()
        self._unanswered: set[asyncio.Future[list[Event]]] = set()
        self._stirred = asyncio.Event()

    async def append(
        self,
        conversation_id: str,
        events: Sequence[NewEvent],
        *,
        at: datetime,
        generation: int,
        releases: bool = False,
    ) -> list[Event]:
        """Append under a lease, and free it when `releases`. Raises LeaseLost."""
        answer: asyncio.Future[list[Event]] = asyncio.get_running_loop().create_future()
        request = _Request(conversation_id, tuple(events), at, generation, releases, answer)
        self._waiting.append(request)
        self._unanswered.add(answer)
        self._stirred.set()
        try:
            return await answer
        finally:
            self._unanswered.discard(answer)

    async def run(self) -> None:
        """Serve groups until cancelled."""
        async with asyncio.TaskGroup() as working:
            for lane in self._lanes:
                working.create_task(self._work(lane))

    async def _work(self, lane: SteadyConnection) -> None:
        while True:
            await self._stirred.wait()
            self._stirred.clear()
            while group := self._take():
                taken = frozenset(group)
                self._in_hand |= taken
                await self._serve(lane, group)
                self._in_hand -= taken

    def close(self) -> None:
        """Tell callers that are still waiting that nobody serves them any more."""
        for answer in self._unanswered:
            if not answer.done():
                answer.set_exception(StoreUnavailable("the store is closing"))

    def _take(self) -> _Group:
        """The next group; what may not be in it keeps its place and its order."""
        group: _Group = {}
        kept: deque[_Request] = deque()
        blocked = self._parked | self._in_hand
        share = sum(len(request.events) for request in self._waiting) // len(self._lanes)
        most = min(max(share, LEAST_EVENTS), MOST_EVENTS)
        size = 0
        while self._waiting and size < most:
            request = self._waiting.popleft()
            if request.answer.done():
                continue
            together = group.get(request.conversation_id, [])
            if request.conversation_id in blocked or not _fits(together, request):
                blocked.add(request.conversation_id)
                kept.append(request)
                continue
            group.setdefault(request.conversation_id, []).append(request)
            size += len(request.events)
        kept.extend(self._waiting)
        self._waiting = kept
        return group

    async def _serve(self, lane: SteadyConnection, group: _Group) -> None:
        """Bring every request of the group to its answer, or park it for a moment."""
        crowded: set[str] = set()
        while group:
            connection = await lane.get()
            batches: list[Batch] = []
            try:
                batches = await self._numbered(lane, group, crowded)
                answers = await _commit(connection, batches, is_pooled=lane.is_pooled)
            except LOST:
                lane.drop()
                answers = await _ask_the_log(lane, batches)
            except PASSING:
                await asyncio.sleep(PASSING_WAIT_S)
                continue
            except Exception as error:  # noqa: BLE001  # The root of a task that serves all others.
                await self._serve_apart(lane, group, error)
                return
            self._settle(group, batches, answers, crowded)

    async def _numbered(
        self, lane: SteadyConnection, group: _Group, crowded: set[str]
    ) -> list[Batch]:
        """The group's batches on the known tails; a conversation that is not there is answered."""
        unknown = [key for key in group if self._tails.get(key) is None]
        if unknown:
            connection = await lane.get()
            async with every_tenant(connection, is_pooled=lane.is_pooled):
                found = await read_tails(connection, unknown)
            for conversation_id, seen in found.items():
                self._tails.see(conversation_id, seen)
            for key in set(unknown) - found.keys():
                _fail(group.pop(key), LeaseLost(f"there is no conversation {key!r}"))
        return [
            numbered(
                key,
                tail,
                [(request.events, request.at) for request in requests],
                seal=self._seal,
                lease=UnderLease(
                    requests[0].generation,
                    requests[-1].releases,
                    None if key in crowded else _last_run(requests),
                ),
            )
            for key, requests in sorted(group.items())
            if (tail := self._tails.get(key)) is not None
        ]

    async def _serve_apart(self, lane: SteadyConnection, group: _Group, error: Exception) -> None:
        """Find whose events the database refuses: halve the group until one request is left."""
        requests = [(key, request) for key, waiting in group.items() for request in waiting]
        if len(requests) == 1:
            _fail([requests[0][1]], error)
            return
        middle = len(requests) // 2
        for half in (requests[:middle], requests[middle:]):
            part: _Group = {}
            for key, request in half:
                part.setdefault(key, []).append(request)
            await self._serve(lane, part)

    def _settle(
        self,
        group: _Group,
        batches: list[Batch],
        answers: dict[str, Answer],
        crowded: set[str],
    ) -> None:
        """Answer what was decided; what is left in the group is to be tried again."""
        for batch in batches:
            key = batch.conversation_id
            answer = answers[key]
            match answer.outcome:
                case Outcome.DONE:
                    self._tails.see(key, batch.after)
                    self._committed(key, batch.events)
                    _deliver(group.pop(key), batch.events)
                case Outcome.LOST:
                    _fail(group.pop(key), LeaseLost(f"the lease on {key!r} is another's"))
                case Outcome.BUSY:
                    self._park(key, group.pop(key))
                case Outcome.CROWDED:
                    crowded.add(key)
                case Outcome.MOVED:
                    if answer.tail is not None:
                        self._tails.see(key, answer.tail)

    def _park(self, conversation_id: str, requests: list[_Request]) -> None:
        """Let a conversation wait whose row a request holds; the others go on meanwhile."""
        self._parked.add(conversation_id)

        def back() -> None:
            self._parked.discard(conversation_id)
            self._waiting.extendleft(reversed(requests))
            self._stirred.set()

        asyncio.get_running_loop().call_later(BUSY_WAIT_S, back)


async def _commit(
    connection: Connection, batches: list[Batch], *, is_pooled: bool
) -> dict[str, Answer]:
    """Write the batches; a transaction of its own only where one statement does not do."""
    if not batches:
        return {}
    later = later_rounds(batches)
    waking = [b.conversation_id for b in batches if b.lease.releases and b.lease.lone_run is None]
    as_one = bool(later or waking)
    async with every_tenant(connection, is_pooled=is_pooled, as_one=as_one):
        answers = await write(connection, batches)
        done = [key for key, answer in answers.items() if answer.outcome is Outcome.DONE]
        await write_later_rounds(connection, done, later)
        released = [key for key in waking if answers[key].outcome is Outcome.DONE]
        if released:
            # A statement of its own, after the release: it must see whatever was committed before.
            ready = await connection.fetch(READY_AMONG, released)
            await enqueue_wakes(connection, [row["id"] for row in ready])
    return answers


async def _ask_the_log(lane: SteadyConnection, batches: list[Batch]) -> dict[str, Answer]:
    """After a lost connection: which batches were committed. The others are tried again.

    Its session was ended, or else, behind a pooler, is waited for.
    """
    answers: dict[str, Answer] = {}
    ids = [batch.conversation_id for batch in batches]
    while len(answers) < len(batches):
        connection = await lane.get()
        try:
            async with every_tenant(connection, is_pooled=lane.is_pooled):
                if lane.is_pooled:
                    await connection.execute(_SETTLED, ids)
                tails = await read_tails(connection, ids)
                for batch in batches:
                    found = await connection.fetchval(
                        _COMMITTED, batch.conversation_id, batch.after.seq
                    )
                    is_there = bool(batch.events) and found == batch.after.hash
                    outcome = Outcome.DONE if is_there else Outcome.MOVED
                    tail = tails.get(batch.conversation_id)
                    answers[batch.conversation_id] = Answer(outcome, tail)
        except (*LOST, *PASSING):
            lane.drop()
            answers.clear()
    return answers


def _last_run(requests: list[_Request]) -> str | None:
    """The run that the requests let go of its conversation with, if they end one.

    If no other is open there is nobody to wake. The append itself sees to that: whatever opens a
    run moves the head, and on a head that has moved nothing is written.
    """
    last = requests[-1]
    ends = last.releases and bool(last.events) and last.events[-1].type in TERMINAL
    return last.events[-1].run_id if ends else None


def _fits(together: list[_Request], request: _Request) -> bool:
    if not together:
        return True
    last = together[-1]
    return not last.releases and last.generation == request.generation


def _deliver(requests: list[_Request], events: tuple[Event, ...]) -> None:
    start = 0
    for request in requests:
        end = start + len(request.events)
        if not request.answer.done():
            request.answer.set_result(list(events[start:end]))
        start = end


def _fail(requests: list[_Request], error: Exception) -> None:
    for request in requests:
        if not request.answer.done():
            request.answer.set_exception(error)
