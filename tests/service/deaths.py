"""Processes on one database: another one, and one that dies at a chosen append."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.house import House
from tests.support.killed import DeadlyLeases, Killed, Moment

if TYPE_CHECKING:
    from app.log.records import RunRecord


def other(house: House, worker: str = "worker-2") -> House:
    """Another process on the same database, with the same tools."""
    return House(
        house.store,
        house.tenant,
        house.clock,
        house.tools,
        memories=house.memories,
        summarizers=house.summarizers,
        worker=worker,
    )


def doomed(house: House, event_type: str, moment: Moment, nth: int = 1) -> House:
    """A process that dies there."""
    leases = DeadlyLeases(house.store.leases, event_type, moment, nth)
    return House(
        house.store,
        house.tenant,
        house.clock,
        house.tools,
        leases=leases,
        memories=house.memories,
        summarizers=house.summarizers,
    )


async def killed(house: House, run: RunRecord) -> None:
    """Drive until the process dies, and let its lease run out."""
    with pytest.raises(Killed):
        await house.drive(run)
    await house.free(run)
