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

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pgqueuer.domain.types import QueueEntrypoint
    from pgqueuer.ports.driver import Driver

    from app.store.connections import Connection

SCHEMA: Final = "tgq"
ENTRYPOINT: Final = "wake"


@cache
def queue_settings() -> DBSettings:
    """Names and durability of the queue: jobs survive a crash, the log of done ones need not."""
    return DBSettings(db_schema=SCHEMA, channel="tgq", durability=Durability.balanced)


class WakeQueries(Queries):
    """PgQueuer's queries; those about deferred jobs are answered here, for a wake is never one."""

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


async def enqueue_wakes(connection: Connection, conversation_ids: Sequence[str]) -> None:
    """Enqueue a wake for each conversation. The connection must be in a transaction.

    Several wakes of one conversation may be queued at a time: each is only a hint to try a claim,
    and to leave one out because another is "still there" loses wakes.
    """
    if not conversation_ids:
        return
    if not connection.is_in_transaction():
        raise RuntimeError("a wake must be part of the transaction that makes the run ready")
    count = len(conversation_ids)
    # A pool's proxy is a connection in all but its type.
    driver = AsyncpgDriver(connection)  # type: ignore[arg-type]  # PoolConnectionProxy
    payloads: list[bytes | None] = [text.encode() for text in conversation_ids]
    await queries(driver).enqueue([ENTRYPOINT] * count, payloads, [0] * count)
