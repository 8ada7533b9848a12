"""A recorder on an in-memory log and a played clock, with its pump running."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from app.log.calls import ToolStarted
from app.log.payload import UsageTotals
from app.log.runs import StepCompleted, StepStarted
from app.service.driving.limits import RunLimits
from app.service.driving.recorder import TurnRecorder
from app.turn.ports import Fact
from app.turn.stream import TextDelta
from tests.support.clock import PlayedClock, settle
from tests.support.log.memory_leases import MemoryLeases
from tests.support.log.records import lease

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@dataclass
class Barrier:
    """A gate that a test shuts and opens."""

    opened: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self.opened.set()

    async def passable(self, run_id: str) -> None:
        await self.opened.wait()


@dataclass
class Desk:
    """The recorder and everything around it."""

    clock: PlayedClock
    leases: MemoryLeases
    limits: RunLimits
    pace: Barrier
    recorder: TurnRecorder

    async def say(self, *texts: str) -> None:
        for text in texts:
            await self.recorder.send(TextDelta(text))

    async def heard(self) -> list[str]:
        """The texts committed so far, once nobody has anything left to do."""
        await settle()
        return self.leases.texts


def desk(*, max_tokens: int | None = None, file_bytes: int = 100) -> Desk:
    clock, leases, pace = PlayedClock(), MemoryLeases(), Barrier()
    limits = RunLimits(max_tokens, deadline_s=None, tokens=0, active_s=0.0, file_bytes=file_bytes)
    recorder = TurnRecorder(
        leases, lease(), turn_id="turn_1", limits=limits, clock=clock, pace=pace
    )
    return Desk(clock, leases, limits, pace, recorder)


@asynccontextmanager
async def pumping(at: Desk) -> AsyncIterator[Desk]:
    """The desk with its pump running until the block ends."""
    async with asyncio.TaskGroup() as owner:
        pump = owner.create_task(at.recorder.pump())
        yield at
        pump.cancel()


def step_started(attempt: int = 1) -> Fact:
    started = StepStarted(attempt=attempt, granted=(), tainted=False, native_search=False)
    return Fact(started, step=1)


def step_completed(tokens: int = 0) -> Fact:
    return Fact(StepCompleted(calls=0, usage=UsageTotals(total_tokens=tokens)), step=1)


def tool_started(call_id: str) -> Fact:
    started = ToolStarted(
        call_id=call_id,
        request_id="call_0_0",
        tool="clock_now",
        args_sha256="a" * 64,
        idempotency_key=f"run_1:{call_id}",
        attempt=1,
    )
    return Fact(started, step=1)
