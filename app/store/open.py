"""The store as a whole: what `app.main.storage` opens, and the tasks that belong to it."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from app.errors import Misconfigured
from app.store.artifacts.artifact_store import StoreArtifacts
from app.store.artifacts.leftovers import Leftovers
from app.store.artifacts.workspace import StoreWorkspace
from app.store.database import StoreDatabase
from app.store.dispatch.holds import StoreHolds
from app.store.dispatch.own_wakes import OwnWakes
from app.store.dispatch.queue import StoreQueue
from app.store.dispatch.signals import StoreSignals
from app.store.keys.revocations import StoreRevocations
from app.store.keys.service_keys import StoreServiceKeys
from app.store.leases import StoreLeases
from app.store.log.appender import LANES, Appender
from app.store.log.tails import Tails
from app.store.memory.folding import Folding
from app.store.memory.memories import StoreMemories
from app.store.memory.recall import StoreRecall
from app.store.server.connections import (
    FORGETFUL,
    ROUTINE,
    SESSION,
    SteadyConnection,
    open_pool,
)
from app.store.server.row_security import EVERY_TENANT, EveryTenant, OneTenant, service_role
from app.store.skills import StoreSkills
from app.store.texts import escape
from app.store.tool_search import StoreToolSearch

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping

    from app.runctx.memory import MemorySettings
    from app.runctx.ports import Embedder, Summarizer
    from app.store.artifacts.bucket import Bucket, BucketPlace
    from app.store.log.numbering import Sealer
    from app.store.memory.plain import StoreMemory
    from app.store.server.connections import Pool

CLOSE_S: Final = 2.0
EVERYONE_POOL: Final = 4


@dataclass(frozen=True, slots=True)
class Store:
    """The ports of the service, fulfilled by one Postgres."""

    database: StoreDatabase
    leases: StoreLeases
    queue: StoreQueue
    signals: StoreSignals
    holds: StoreHolds
    service_keys: StoreServiceKeys
    revocations: StoreRevocations
    pool: Pool
    everyone: EveryTenant
    folding: Folding | None = None
    recall: StoreRecall | None = None
    bucket: Bucket | None = None

    @property
    def artifacts(self) -> StoreArtifacts:
        """The files of every tenant's conversations."""
        return StoreArtifacts(self.pool, self.bucket)

    def workspace(self, tenant: str) -> StoreWorkspace:
        """The files of the tenant's conversations, as the tools see them."""
        return StoreWorkspace(self.pool, tenant, self.bucket)

    def skills(self, tenant: str) -> StoreSkills:
        """The tenant's skills, as its runs see them."""
        return StoreSkills(OneTenant(self.pool, escape(tenant)), tenant)

    def memory(self, settings: MemorySettings, *, model: str) -> StoreMemory:
        """What agents with these settings remember; `model` is their own.

        Raises Misconfigured for what this store cannot do.
        """
        return StoreMemories(self.pool, self.recall, self.folding).memory(settings, model=model)

    async def recalling(self, embedder: Embedder) -> Store:
        """This store, with the search by meaning if the database has vectors."""
        return replace(self, recall=await StoreRecall.opened(self.pool, embedder))

    @property
    def tool_search(self) -> StoreToolSearch:
        """The search over the texts of tools."""
        return StoreToolSearch(self.pool)

    @staticmethod
    @asynccontextmanager
    async def open(
        dsn: str,
        *,
        process: str,
        seal: Sealer,
        direct: str | None = None,
        summarizer_of: Callable[[str], Summarizer] | None = None,
        bucket: Bucket | None = None,
    ) -> AsyncIterator[Store]:
        """The store of a migrated database until the block ends. Raises StoreUnavailable.

        `process` is an id of this process that no other has; `seal` signs logs. `direct` is the
        database's own address where `dsn` is a pooler's: what listens uses it, and without it looks
        again and again. `summarizer_of` an agent's model is who condenses its memory. New artifacts
        have their bytes in the `bucket`. What a block raises is passed on as it is; appends that
        nobody has answered by the end of the block raise StoreUnavailable.
        """
        links = await _Links.open(dsn, direct)
        pool, everyone = links.pool, links.everyone
        tails = Tails()
        own_wakes = OwnWakes()
        signals = StoreSignals(links.hinting, sender=process)
        appender = Appender(links.lanes, tails, seal=seal, committed=signals.committed)
        database = StoreDatabase(
            pool, tails, seal=seal, own_wakes=own_wakes, committed=signals.committed, bucket=bucket
        )
        folding = None if summarizer_of is None else Folding(pool, everyone, summarizer_of)
        tasks = asyncio.TaskGroup()
        await tasks.__aenter__()
        running = [tasks.create_task(appender.run()), tasks.create_task(signals.run())]
        if folding is not None:
            running.append(tasks.create_task(folding.run()))
        running.append(tasks.create_task(Leftovers(everyone, bucket).run()))
        try:
            yield Store(
                database=database,
                leases=StoreLeases(everyone, appender, pool, bucket),
                queue=StoreQueue(direct or dsn, everyone, own_wakes, role=links.role),
                signals=signals,
                holds=StoreHolds(everyone),
                service_keys=StoreServiceKeys(pool),
                revocations=StoreRevocations(everyone),
                pool=pool,
                everyone=everyone,
                folding=folding,
                bucket=bucket,
            )
        finally:
            for task in running:
                task.cancel()
            await tasks.__aexit__(None, None, None)
            appender.close()
            await links.close()


@dataclass(frozen=True, slots=True)
class _Links:
    """All connections of a store but its queue's; `role` is for the address of what lasts."""

    pool: Pool
    everyone: EveryTenant
    lanes: list[SteadyConnection]
    hinting: SteadyConnection
    role: Mapping[str, str]

    @staticmethod
    async def open(dsn: str, direct: str | None) -> _Links:
        role = await service_role(dsn)
        lasting = role if direct is None else await service_role(direct)
        pool = await open_pool(dsn, settings={**SESSION, **role})
        forgetful = {**FORGETFUL, **role}
        everyone = await EveryTenant.open(dsn, largest=EVERYONE_POOL, settings=forgetful)
        steady = {**ROUTINE, **lasting, **EVERY_TENANT}
        *lanes, hinting = [
            SteadyConnection(direct or dsn, settings=steady) for _ in range(LANES + 1)
        ]
        return _Links(pool, everyone, lanes, hinting, lasting)

    async def close(self) -> None:
        for connection in (*self.lanes, self.hinting):
            await connection.close()
        for pool in (self.everyone.pool, self.pool):
            await _close(pool)


async def _close(pool: Pool) -> None:
    try:
        async with asyncio.timeout(CLOSE_S):
            await pool.close()
    except TimeoutError:
        pool.terminate()


def open_bucket(place: BucketPlace) -> Bucket:
    """The bucket, which is not asked yet. Raises Misconfigured."""
    try:
        from app.store.artifacts.s3 import S3Bucket  # noqa: PLC0415 - what it imports is an extra
    except ImportError as error:
        raise Misconfigured(
            "TURNGATE_ARTIFACTS_BUCKET needs the extra s3: pip install 'turngate[s3]'"
        ) from error
    return S3Bucket(place)
