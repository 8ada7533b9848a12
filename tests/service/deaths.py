"""Processes on one database: another one, and one that dies at a chosen append."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.log.killed import DeadlyLeases, Killed, Moment
from tests.support.service.house import House

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from app.log.envelope import Event
    from app.log.records import RunRecord
    from app.service.ports.leases import Leases
    from app.service.ports.signals import Signals


class NoSignals:
    """The hints of a process that hears none, so that whoever is dead is not told for ever."""

    def on_commit(self, heard: Callable[[str, Sequence[Event]], None]) -> None:
        return

    def on_head(self, heard: Callable[[str, int], None]) -> None:
        return


def process(
    house: House,
    leases: Leases | None = None,
    *,
    worker: str = "worker-1",
    signals: Signals | None = None,
) -> House:
    """A process on the same database, with the same tools."""
    return House(
        house.store,
        house.tenant,
        house.clock,
        house.tools,
        leases=leases,
        memories=house.memories,
        summarizers=house.summarizers,
        worker=worker,
        signals=signals,
    )


def other(house: House, worker: str = "worker-2") -> House:
    """Another process."""
    return process(house, worker=worker)


def doomed(house: House, event_type: str, moment: Moment, nth: int = 1) -> House:
    """A process that dies there."""
    return process(house, DeadlyLeases(house.store.leases, event_type, moment, nth))


async def killed(house: House, run: RunRecord) -> None:
    """Drive until the process dies, and let its lease run out."""
    with pytest.raises(Killed):
        await house.drive(run)
    await house.free(run)
