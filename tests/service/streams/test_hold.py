from __future__ import annotations

import asyncio
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from app.log.queries import LogScope
from app.service.caller import Caller
from app.service.streams import hold as hold_module
from app.service.streams.hold import HoldGate, HoldRequest
from tests.support.log.memory_log import MemoryLog
from tests.support.stepped_clock import SteppedClock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

RUN = LogScope("conv_1", "run_1")
WRITER = frozenset({"runs:read", "runs:write"})


class World:
    """A gate, the log it counts, and what its subscribers were told."""

    def __init__(self) -> None:
        self.clock = SteppedClock()
        self.gate = HoldGate(self.clock)
        self.log = MemoryLog()
        self.gate.listen(self.log.signals)
        self.told: list[str] = []

    @contextmanager
    def holding(
        self,
        window: int = 2,
        *,
        principal: str = "alice",
        scopes: frozenset[str] = WRITER,
        takes_part: bool = True,
        scope: LogScope = RUN,
    ) -> Iterator[Callable[[int], None]]:
        request = HoldRequest(Caller("acme", principal, scopes), scope, takes_part, window)
        with self.gate.holding(request, self.told.append) as acknowledge:
            yield acknowledge

    async def is_held(self, run_id: str = "run_1") -> bool:
        """Whether the run's writer would have to wait now."""
        try:
            async with asyncio.timeout(0.005):
                await self.gate.passable(run_id)
        except TimeoutError:
            return True
        return False


async def test_a_run_is_held_by_more_than_a_window_of_unacknowledged_events() -> None:
    world = World()
    with world.holding(window=2) as acknowledge:
        world.log.append()
        world.log.append()
        assert not await world.is_held()
        world.log.append()
        assert await world.is_held()
        acknowledge(1)
        assert not await world.is_held()


async def test_an_ack_lets_the_waiting_writer_through() -> None:
    world = World()
    with world.holding(window=1) as acknowledge:
        world.log.append()
        world.log.append()
        async with asyncio.TaskGroup() as tasks:
            writer = tasks.create_task(world.gate.passable("run_1"))
            await asyncio.sleep(0)
            assert not writer.done()
            acknowledge(2)


async def test_a_subscriber_that_leaves_lets_the_waiting_writer_through() -> None:
    world = World()
    async with asyncio.TaskGroup() as tasks:
        with world.holding(window=1):
            world.log.append()
            world.log.append()
            writer = tasks.create_task(world.gate.passable("run_1"))
            await asyncio.sleep(0)
            assert not writer.done()
    assert not await world.is_held()


async def test_what_was_committed_before_the_hold_does_not_count() -> None:
    world = World()
    for _ in range(5):
        world.log.append()
    with world.holding(window=1):
        assert not await world.is_held()


async def test_other_runs_and_other_events_of_the_conversation_do_not_count() -> None:
    world = World()
    with world.holding(window=1):
        for run_id in ("run_2", None, "run_2"):
            world.log.append(run_id=run_id)
        assert not await world.is_held()
        assert not await world.is_held("run_2")


async def test_a_hold_on_a_conversation_holds_the_run_that_is_active_in_it() -> None:
    world = World()
    with world.holding(window=1, scope=LogScope("conv_1")):
        world.log.append(run_id="run_7")
        world.log.append(run_id="run_7")
        assert await world.is_held("run_7")


async def test_the_slowest_of_several_subscribers_sets_the_pace() -> None:
    world = World()
    with world.holding(window=100), world.holding(window=1, principal="bob"):
        world.log.append()
        world.log.append()
        assert await world.is_held()


async def test_thirty_seconds_without_an_ack_demote_the_subscriber_and_the_run_goes_on() -> None:
    world = World()
    with world.holding(window=1):
        world.log.append()
        world.log.append()
        world.clock.step(29)
        assert await world.is_held()
        world.clock.step(1)
        assert not await world.is_held()
        world.log.append()
        assert not await world.is_held()
    assert world.told == ["timeout"]


async def test_the_gate_demotes_by_itself_while_the_writer_waits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(hold_module, "PATIENCE_S", 0.0)
    world = World()
    with world.holding(window=1):
        world.log.append()
        world.log.append()
        await world.gate.passable("run_1")
    assert world.told == ["timeout"]


async def test_an_ack_that_leaves_the_window_full_still_shows_life() -> None:
    world = World()
    with world.holding(window=1) as acknowledge:
        for _ in range(4):
            world.log.append()
        world.clock.step(20)
        acknowledge(1)
        world.clock.step(20)
        assert await world.is_held()
    assert world.told == []


async def test_whoever_was_demoted_may_not_hold_the_run_again_for_five_minutes() -> None:
    world = World()
    with world.holding(window=1):
        world.log.append()
        world.log.append()
        world.clock.step(30)
        assert not await world.is_held()
    with world.holding(), world.holding(principal="bob"):
        assert world.told == ["timeout", "cooldown"]
    world.clock.step(300)
    with world.holding():
        assert world.told == ["timeout", "cooldown"]


@pytest.mark.parametrize(
    ("scopes", "takes_part"),
    [(frozenset({"runs:read"}), True), (WRITER, False), (frozenset({"admin"}), False)],
    ids=["reading only", "an approver", "an administrator who takes no part"],
)
async def test_whoever_may_only_read_is_demoted_at_once(
    scopes: frozenset[str], takes_part: bool
) -> None:
    world = World()
    with world.holding(window=1, scopes=scopes, takes_part=takes_part):
        assert world.told == ["forbidden"]
        world.log.append()
        world.log.append()
        assert not await world.is_held()
