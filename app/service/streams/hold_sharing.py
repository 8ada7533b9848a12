"""The way of holds between processes: what this one has to tell, and what it has to know.

A hold works in whichever process the run is written. The rows are few and the exchange is short:
twice a second, at once when a hold begins, ends or is acknowledged, and 20 times a second at most.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final, NoReturn, Protocol

import structlog

from app.errors import StoreUnavailable

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from app.log.holds import HoldChanges, HoldRow
    from app.service.clock import Clock
    from app.service.streams.hold import HoldGate

EXCHANGE_S: Final = 0.5
SHORTEST_S: Final = 0.05

log = structlog.get_logger("turngate.holds")


class SharedHolds(Protocol):
    """The port: where the processes write their holds down."""

    async def exchange(self, changes: HoldChanges) -> list[HoldRow]:
        """Write changes, then read all holds that are alive or were demoted lately.

        Raises StoreUnavailable.
        """
        ...


class HoldSharing:
    """Exchanges; while the database is away, each process holds for itself."""

    def __init__(self, gate: HoldGate, shared: SharedHolds, clock: Clock) -> None:
        self._gate = gate
        self._shared = shared
        self._clock = clock

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Exchange beside the block; at its end the others are told who has gone."""
        async with asyncio.TaskGroup() as owner:
            exchanging = owner.create_task(self._run())
            try:
                yield
            finally:
                exchanging.cancel()
        await self.exchange()

    async def _run(self) -> NoReturn:
        while True:
            await self.exchange()
            if self._gate.waits_for_others:
                await self._clock.sleep(SHORTEST_S)
                continue
            try:
                async with asyncio.timeout(EXCHANGE_S):
                    await self._gate.changed.wait()
            except TimeoutError:
                continue
            # What changes in the meantime goes along.
            await self._clock.sleep(SHORTEST_S)

    async def exchange(self) -> None:
        """Tell and hear once."""
        self._gate.changed.clear()
        changes = self._gate.take_changes()
        try:
            rows = await self._shared.exchange(changes)
        except StoreUnavailable:
            self._gate.give_back(changes)
            log.warning("holds.not_exchanged")
        else:
            self._gate.heard(rows)
