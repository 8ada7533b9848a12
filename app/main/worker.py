"""What drives runs: a driver, and the supervisor that owns its tasks."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from prometheus_client import Counter

from app.service.context.compaction import Compaction
from app.service.driving.driver import Driver, DriverSettings
from app.service.driving.expiry import Expiry
from app.service.driving.loading import Loader
from app.service.driving.supervisor import Supervisor

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from app.api.edge import Edge
    from app.main.parts import Parts


@asynccontextmanager
async def at_work(parts: Parts, edge: Edge) -> AsyncIterator[Supervisor]:
    """A worker that drives runs until the block ends."""
    supervisor = _supervisor(parts, edge, _driver(parts))
    async with asyncio.TaskGroup() as owner:
        owner.create_task(supervisor.run())
        try:
            yield supervisor
        finally:
            supervisor.stop()


def _driver(parts: Parts) -> Driver:
    settings, store, database = parts.settings, parts.store, parts.store.database
    compaction = Compaction(database, parts.summarizers)
    driver = Driver(
        database=database,
        leases=store.leases,
        loader=Loader(database, parts.binder, parts.statements, compaction),
        clock=parts.clock,
        pace=parts.holds,
        settings=DriverSettings(
            parts.process,
            settings.lease_ttl_s,
            settings.max_steps,
            settings.artifact_max_bytes,
        ),
    )
    driver.keeper.listen(store.signals)
    return driver


def _supervisor(parts: Parts, edge: Edge, driver: Driver) -> Supervisor:
    queue, clock, settings = parts.store.queue, parts.clock, parts.settings
    expiry = Expiry(queue=queue, approvals=edge.approvals, questions=edge.questions, clock=clock)
    supervisor = Supervisor(
        queue=queue,
        driver=driver,
        expiry=expiry,
        clock=clock,
        concurrency=settings.worker_concurrency,
        drain_s=settings.drain_s,
    )
    supervisor.forget_memory_after(settings.memory_retention_days)
    # Raised by a dead worker, and by whatever else keeps a run from those who were told of it.
    swept = Counter(
        "turngate_runs_swept", "Runs that no wake-up brought to a worker", registry=edge.registry
    )
    supervisor.on_swept(swept.inc)
    return supervisor
