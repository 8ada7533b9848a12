"""A clock whose sleepers wake when a test lets time pass, each at its own time."""

from __future__ import annotations

import asyncio
from heapq import heappop, heappush
from typing import TYPE_CHECKING

from typing_extensions import override

from tests.support.stepped_clock import NOON, SteppedClock

if TYPE_CHECKING:
    from datetime import datetime

# More loop cycles than any chain of ready tasks in a test takes.
CYCLES = 50


async def settle() -> None:
    """Let every task that can go on go on, without any time passing."""
    for _ in range(CYCLES):
        await asyncio.sleep(0)


class PlayedClock(SteppedClock):
    """Fulfils `app.service.clock.Clock`; time passes in `let_pass` alone."""

    def __init__(self, start: datetime = NOON) -> None:
        super().__init__(start)
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._count = 0

    @override
    async def sleep(self, seconds: float) -> None:
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        self._count += 1
        woken = asyncio.get_running_loop().create_future()
        heappush(self._sleepers, (self.monotonic() + seconds, self._count, woken))
        await woken

    async def let_pass(self, seconds: float) -> None:
        """Let so much time pass, and whoever sleeps for less wake in order."""
        await settle()
        end = self.monotonic() + seconds
        while self._sleepers and self._sleepers[0][0] <= end:
            due, _, woken = heappop(self._sleepers)
            self.step(max(0.0, due - self.monotonic()))
            if not woken.done():
                woken.set_result(None)
            await settle()
        self.step(max(0.0, end - self.monotonic()))
        await settle()
