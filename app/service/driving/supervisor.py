"""The supervisor of a worker process: the owner of every task that drives a run.

It takes woken conversations from the queue, claims them, drives them side by side up to a bound,
and sweeps for what the queue cannot know: runs whose worker died, what is pending past its time,
answers that nobody may ask for again, memory that is kept for so long and no longer.
"""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING, Final

import structlog

from app.errors import StoreUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable

    from app.log.records import Lease
    from app.service.clock import Clock
    from app.service.driving.driver import Driver
    from app.service.driving.expiry import Expiry
    from app.service.ports.queue import Queue

SWEEP_S: Final = 1.0
FORGOTTEN_AT_ONCE: Final = 1000

log = structlog.get_logger("turngate.supervisor")


class Supervisor:
    """Runs until told to stop; `stop` drains."""

    def __init__(
        self,
        *,
        queue: Queue,
        driver: Driver,
        expiry: Expiry,
        clock: Clock,
        concurrency: int,
        drain_s: float,
    ) -> None:
        self._queue = queue
        self._driver = driver
        self._expiry = expiry
        self._clock = clock
        self._concurrency = concurrency
        self._drain_s = drain_s
        self._free = asyncio.Semaphore(concurrency)
        self._drives: set[asyncio.Task[None]] = set()
        self._count_swept: Callable[[], None] = lambda: None
        self._memory_days = 0
        self._stopping = asyncio.Event()
        self._stopped = asyncio.Event()

    def on_swept(self, count: Callable[[], None]) -> None:
        """Call `count` for each run that only the sweep took up, from now on."""
        self._count_swept = count

    def forget_memory_after(self, days: int) -> None:
        """Remove what was remembered so many days ago, from now on; 0 keeps it."""
        self._memory_days = days

    async def run(self) -> None:
        """Work until `stop`; then hand over what is under way. Cancelling drops it at once."""
        try:
            await self._run()
        finally:
            self._stopped.set()

    async def _run(self) -> None:
        async with asyncio.TaskGroup() as owned:
            self._owned = owned
            taking = owned.create_task(
                self._queue.work(
                    self._woken,
                    concurrency=self._concurrency,
                    has_room=lambda: not self._free.locked(),
                )
            )
            sweeping = owned.create_task(self._sweep())
            await self._stopping.wait()
            taking.cancel()
            sweeping.cancel()
            await self._hand_over()

    def stop(self) -> None:
        """Take no more work, and let what is under way reach a step boundary."""
        self._stopping.set()

    async def drain(self) -> None:
        """Stop, and wait until everything under way is handed over."""
        self.stop()
        await self._stopped.wait()

    async def _woken(self, conversation_id: str) -> None:
        await self._take(conversation_id)

    async def _take(self, conversation_id: str) -> bool:
        """Claim and drive, and tell; waits while as many runs as are allowed are under way."""
        await self._free.acquire()
        lease = None
        try:
            lease = await self._claim(conversation_id)
        except StoreUnavailable:
            log.warning("store.unavailable")
        finally:
            if lease is None:
                self._free.release()
        if lease is not None:
            task = self._owned.create_task(self._drive(lease))
            self._drives.add(task)
            task.add_done_callback(self._drives.discard)
        return lease is not None

    async def _claim(self, conversation_id: str) -> Lease | None:
        """A lease to drive; none once this worker has stopped, for no drain would wait for it.

        A place that is free only because of the stop is for no new run, and what was being claimed
        meanwhile goes to others at once. Raises StoreUnavailable.
        """
        if self._stopping.is_set():
            return None
        lease = await self._driver.claim(conversation_id)
        if lease is not None and self._stopping.is_set():
            await self._driver.release(lease)
            return None
        return lease

    async def _drive(self, lease: Lease) -> None:
        """The root of a drive's task: whatever a run raises, `Driver.drive` keeps it to itself."""
        try:
            await self._driver.drive(lease)
        finally:
            self._free.release()

    async def _sweep(self) -> None:
        while True:
            for sweep in (self._expiry.sweep, self._take_stranded, self._forget):
                try:
                    await sweep()
                except StoreUnavailable:
                    log.warning("store.unavailable")
            await self._clock.sleep(SWEEP_S)

    async def _take_stranded(self) -> None:
        for conversation_id in await self._queue.stranded():
            if self._free.locked():
                return
            # A task of its own: a claim that is cancelled in the middle may have been committed,
            # and would keep the run from everybody until it runs out.
            taking = self._owned.create_task(self._take(conversation_id))
            if await asyncio.shield(taking):
                self._count_swept()

    async def _forget(self) -> None:
        now = self._clock.now()
        await self._queue.forget_answers(now, FORGOTTEN_AT_ONCE)
        await self._queue.forget_nonces(FORGOTTEN_AT_ONCE)
        if self._memory_days:
            before = now - timedelta(days=self._memory_days)
            await self._queue.forget_memory(before, FORGOTTEN_AT_ONCE)

    async def _hand_over(self) -> None:
        self._driver.drain()
        if self._drives:
            _, late = await asyncio.wait(self._drives, timeout=self._drain_s)
            for task in late:
                task.cancel()
