from __future__ import annotations

import asyncio
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import pytest

from app.errors import StoreUnavailable
from app.log.holds import HoldChanges, HoldRow
from app.log.queries import LogScope
from app.service.caller import Caller
from app.service.clock import SystemClock
from app.service.streams.hold import HoldGate, HoldRequest
from app.service.streams.hold_sharing import HoldSharing
from tests.support.log.memory_log import MemoryLog
from tests.support.stepped_clock import SteppedClock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from app.service.clock import Clock

RUN = LogScope("conv_1", "run_1")
ALICE = Caller("acme", "alice", frozenset({"runs:write"}))


@dataclass
class Board:
    """The port `SharedHolds` in memory."""

    rows: dict[tuple[str, str], HoldRow] = field(default_factory=dict)
    is_away: bool = False
    was_written: asyncio.Event = field(default_factory=asyncio.Event)
    was_read: asyncio.Event = field(default_factory=asyncio.Event)

    async def read(self) -> None:
        """Returns when somebody has read it from now on."""
        self.was_read.clear()
        await self.was_read.wait()

    async def exchange(self, changes: HoldChanges) -> list[HoldRow]:
        if self.is_away:
            raise StoreUnavailable("away")
        for row in changes.rows:
            key = (row.subject, row.holder)
            before = self.rows.get(key, row)
            demoted_s = row.demoted_s if before.demoted_s is None else before.demoted_s
            self.rows[key] = replace(row, demoted_s=demoted_s)
            self.was_written.set()
        for key, row in list(self.rows.items()):
            if row.holder in changes.gone and row.demoted_s is None:
                del self.rows[key]
        self.was_read.set()
        return list(self.rows.values())


@dataclass
class Process:
    """One process: its gate, and the exchange with the others."""

    clock: Clock
    board: Board
    told: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.gate = HoldGate(self.clock)
        self.sharing = HoldSharing(self.gate, self.board, self.clock)

    @contextmanager
    def holding(self, window: int = 1, scope: LogScope = RUN) -> Iterator[Callable[[int], None]]:
        request = HoldRequest(ALICE, scope, True, window)
        with self.gate.holding(request, self.told.append) as acknowledge:
            yield acknowledge

    async def is_held(self) -> bool:
        try:
            async with asyncio.timeout(0.005):
                await self.gate.passable("run_1")
        except TimeoutError:
            return True
        return False


@dataclass
class World:
    """A process with the sockets, and one that writes the run."""

    def __post_init__(self) -> None:
        self.clock, self.board, self.log = SteppedClock(), Board(), MemoryLog()
        self.sockets = Process(self.clock, self.board)
        self.writer = Process(self.clock, self.board)
        self.writer.gate.listen(self.log.signals)

    async def exchange(self) -> None:
        """Whatever was to be told has been heard."""
        for process in (self.sockets, self.writer, self.sockets):
            await process.sharing.exchange()


async def test_a_subscriber_in_one_process_holds_the_run_that_another_writes() -> None:
    world = World()
    with world.sockets.holding(window=1) as acknowledge:
        await world.exchange()
        world.log.append()
        world.log.append()
        assert await world.writer.is_held()
        acknowledge(1)
        await world.exchange()
        assert not await world.writer.is_held()


async def test_a_subscriber_of_a_conversation_holds_it_from_another_process_as_well() -> None:
    world = World()
    with world.sockets.holding(scope=LogScope("conv_1")):
        await world.exchange()
        world.log.append()
        world.log.append()
        assert await world.writer.is_held()


async def test_a_subscriber_that_leaves_holds_nothing_elsewhere() -> None:
    world = World()
    with world.sockets.holding():
        await world.exchange()
        world.log.append()
        world.log.append()
        assert await world.writer.is_held()
    await world.exchange()
    assert not await world.writer.is_held()
    assert world.board.rows == {}


async def test_a_process_that_is_heard_of_no_more_holds_nothing() -> None:
    world = World()
    with world.sockets.holding():
        await world.exchange()
        world.log.append()
        world.log.append()
        world.board.rows.clear()
        await world.writer.sharing.exchange()
        assert not await world.writer.is_held()


async def test_the_writer_demotes_and_the_subscriber_is_told_and_cools_down_everywhere() -> None:
    world = World()
    with world.sockets.holding():
        await world.exchange()
        world.log.append()
        world.log.append()
        world.clock.step(30)
        assert not await world.writer.is_held()
        await world.exchange()
        assert world.sockets.told == ["timeout"]
    for process in (world.sockets, world.writer):
        process.told.clear()
        with process.holding():
            assert process.told == ["cooldown"]


async def test_a_hold_that_goes_on_is_written_down_again_to_show_that_its_process_lives() -> None:
    gate = HoldGate(clock := SteppedClock())
    with gate.holding(HoldRequest(ALICE, RUN, True, 1), lambda _: None):
        assert len(gate.take_changes().rows) == 1
        assert gate.take_changes() == HoldChanges()
        clock.step(2)
        assert len(gate.take_changes().rows) == 1


async def test_what_could_not_be_written_is_written_later() -> None:
    world = World()
    world.board.is_away = True
    with world.sockets.holding():
        await world.sockets.sharing.exchange()
    await world.sockets.sharing.exchange()
    world.board.is_away = False
    with world.writer.holding():
        world.log.append()
        world.log.append()
        world.clock.step(30)
        world.board.is_away = True
        assert not await world.writer.is_held()
        await world.writer.sharing.exchange()
        world.board.is_away = False
        await world.writer.sharing.exchange()
    assert [row.demoted_s for row in world.board.rows.values()] == [0.0, 0.0]


async def test_the_exchange_runs_by_itself_and_takes_leave_at_its_end() -> None:
    clock, board = SteppedClock(), Board()
    process = Process(clock, board)
    with process.holding():
        async with process.sharing.running():
            await board.was_written.wait()
    await process.sharing.exchange()
    assert board.rows == {}


async def test_an_ack_in_one_process_lets_the_writer_of_another_through() -> None:
    board, log = Board(), MemoryLog()
    sockets, writer = Process(SystemClock(), board), Process(SystemClock(), board)
    writer.gate.listen(log.signals)
    async with sockets.sharing.running(), writer.sharing.running():
        with sockets.holding() as acknowledge:
            while not writer.gate.waits_for_others:
                log.append()
                await board.read()
            acknowledge(len(log.events))
            async with asyncio.timeout(10):
                await writer.gate.passable("run_1")


@pytest.mark.parametrize("heard_again", [False, True])
async def test_a_subscriber_of_this_process_is_never_taken_for_one_of_another(
    heard_again: bool,
) -> None:
    process = Process(SteppedClock(), Board())
    log = MemoryLog()
    process.gate.listen(log.signals)
    with process.holding():
        await process.sharing.exchange()
        stale = list(process.board.rows.values())
    if heard_again:
        process.gate.heard(stale)
    log.append()
    log.append()
    assert not await process.is_held()
