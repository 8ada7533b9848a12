"""Enqueueing wakes with PgQueuer, in a schema of its own and in the caller's transaction."""

from __future__ import annotations

from datetime import timedelta
from functools import cache
from typing import TYPE_CHECKING, Final

from pgqueuer.adapters.drivers.asyncpg import AsyncpgDriver
from pgqueuer.adapters.persistence.qb import (
    QueryBuilderEnvironment,
    QueryQueueBuilder,
    QuerySchedulerBuilder,
)
from pgqueuer.domain.settings import DBSettings, Durability
from pgqueuer.queries import Queries
from typing_extensions import override

from app.store.server.connections import borrowed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pgqueuer.domain.types import QueueEntrypoint
    from pgqueuer.ports.driver import Driver

    from app.store.server.connections import Connection, Pool

SCHEMA: Final = "tgq"
ENTRYPOINT: Final = "wake"


@cache
def queue_settings() -> DBSettings:
    """Names and durability of the queue: jobs survive a crash, the log of done ones need not."""
    return DBSettings(db_schema=SCHEMA, channel="tgq", durability=Durability.balanced)


class WakeQueries(Queries):
    """PgQueuer's queries. Nobody waits for a deferred wake: it is found by looking every second."""

    @override
    async def next_deferred_eta(self, entrypoints: list[QueueEntrypoint]) -> timedelta:
        return timedelta.max


def queries(driver: Driver) -> Queries:
    """PgQueuer's queries over our schema."""
    environment, queue, scheduler = _builders()
    return WakeQueries(driver, qbe=environment, qbq=queue, qbs=scheduler)


@cache
def _builders() -> tuple[QueryBuilderEnvironment, QueryQueueBuilder, QuerySchedulerBuilder]:
    # Making them reads the whole environment each time, which a wake must not cost.
    settings = queue_settings()
    return (
        QueryBuilderEnvironment(settings=settings),
        QueryQueueBuilder(settings=settings),
        QuerySchedulerBuilder(settings=settings),
    )


async def enqueue_wakes(
    connection: Connection, conversation_ids: Sequence[str], *, after: timedelta | None = None
) -> list[int]:
    """Enqueue a wake for each conversation, to be taken `after` so long; the ids of their jobs.

    The connection must be in a transaction.

    Several wakes of one conversation may be queued at a time: each is only a hint to try a claim,
    and to leave one out because another is "still there" loses wakes.
    """
    if not conversation_ids:
        return []
    if not connection.is_in_transaction():
        raise RuntimeError("a wake must be part of the transaction that makes the run ready")
    count = len(conversation_ids)
    # A pool's proxy is a connection in all but its type.
    driver = AsyncpgDriver(connection)  # type: ignore[arg-type]  # PoolConnectionProxy
    payloads: list[bytes | None] = [text.encode() for text in conversation_ids]
    jobs = await queries(driver).enqueue(
        [ENTRYPOINT] * count, payloads, [0] * count, [after] * count
    )
    return [int(job) for job in jobs]


async def forget_jobs(pool: Pool, job_ids: Sequence[int]) -> None:
    """Take jobs out of the queue whose wakes were acted upon; one that is gone is no matter."""
    _, queue, _ = _builders()
    done, no_faults = ["successful"] * len(job_ids), [None] * len(job_ids)
    async with borrowed(pool) as connection:
        await connection.execute(queue.build_log_job_query(), job_ids, done, no_faults)
