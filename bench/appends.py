"""Events appended a second by 64 writers, beside plain multi-row inserts of the same rows.

Both take turns of a second, so that whatever else the machine does falls on both. The baseline has
it easier in one way: its rows are made once, and it sends nothing but them.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from statistics import median
from time import perf_counter
from typing import TYPE_CHECKING

import asyncpg

from app.log.envelope import NewEvent
from app.log.runs import ConversationCreated, RunCreated, TextDelta
from app.service.clock import SystemClock
from app.store.open import Store
from bench.report import Measure
from bench.servers import SUB, TENANT
from tests.support.log.seals import SEAL

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from app.log.records import Lease
    from bench.report import Report

    Connection = asyncpg.Connection[asyncpg.Record]

WRITERS = 64
ROUNDS = 5
SECONDS = 1.0
EVENTS_EACH = 2
TEXT = "a few words of a sentence that somebody reads as it comes, " * 3
_COLUMNS = (
    "tenant, conversation_id, seq, run_id, turn_id, step, type, trust, at, data, body, private, "
    "prev_hash, hash"
)
_TYPES = (
    *("text", "text", "int8", "text", "text", "int8", "text", "int2"),
    *("timestamptz", "jsonb", "bytea", "bytea", "bytea", "bytea"),
)
_COPY = "CREATE TABLE bench_events (LIKE events INCLUDING INDEXES)"


async def measure(report: Report, dsn: str) -> None:
    """Add the rate of appends."""
    clock = SystemClock()
    ours, base = [], []
    async with Store.open(dsn, seal=SEAL, process="bench") as store, _table(dsn) as connection:
        leases = [await _leased(store, clock) for _ in range(WRITERS)]
        for _ in range(ROUNDS):
            ours.append(await _appended(store, leases, clock))
            base.append(await _inserted(connection))
    report.add(
        Measure(
            f"events appended, {WRITERS} writers",
            "events/s",
            median(ours),
            median(base),
            f"asyncpg inserts of {WRITERS * EVENTS_EACH} such rows",
            "ratio >= 0.5",
        )
    )


async def _leased(store: Store, clock: SystemClock) -> Lease:
    """A new conversation with a run, claimed as a worker claims it."""
    conversation, run, now = clock.mint("conv"), clock.mint("run"), clock.now()
    created = RunCreated(agent="bench", agent_digest="0" * 64, principal=SUB)
    async with store.database.transaction(TENANT) as tx:
        await tx.create_conversation(conversation, now=now)
        await tx.append(conversation, [NewEvent(ConversationCreated(principal=SUB))], now=now)
        await tx.append(conversation, [NewEvent(created, run_id=run)], now=now)
    lease = await store.leases.claim(conversation, owner="bench", ttl_s=60)
    if lease is None:
        raise AssertionError("nobody else drives what was just made")
    return lease


async def _appended(store: Store, leases: list[Lease], clock: SystemClock) -> float:
    """Events a second, every append awaited by its writer."""
    count = 0
    end = perf_counter() + SECONDS

    async def write(lease: Lease) -> None:
        nonlocal count
        while perf_counter() < end:
            text = TextDelta(text=TEXT)
            events = [NewEvent(text, run_id=lease.run.id) for _ in range(EVENTS_EACH)]
            await store.leases.append(lease, events, now=clock.now())
            count += EVENTS_EACH

    start = perf_counter()
    async with asyncio.TaskGroup() as group:
        for lease in leases:
            group.create_task(write(lease))
    return count / (perf_counter() - start)


@asynccontextmanager
async def _table(dsn: str) -> AsyncIterator[Connection]:
    """A connection to a table like the log's, with nothing to check and nothing to fold."""
    connection = await asyncpg.connect(dsn)
    try:
        await connection.execute("DROP TABLE IF EXISTS bench_events")
        await connection.execute(_COPY)
        yield connection
    finally:
        await connection.execute("DROP TABLE IF EXISTS bench_events")
        await connection.close()


async def _inserted(connection: Connection) -> float:
    """Rows a second into that table."""
    size = WRITERS * EVENTS_EACH
    wanted = f"SELECT {_COLUMNS} FROM events WHERE type = 'text.delta' LIMIT {size}"  # noqa: S608 - constants
    columns = [list(column) for column in zip(*await connection.fetch(wanted), strict=True)]
    places = ", ".join(f"${at}::{name}[]" for at, name in enumerate(_TYPES, 1))
    insert = await connection.prepare(
        f"INSERT INTO bench_events ({_COLUMNS}) SELECT * FROM unnest({places})"  # noqa: S608 - constants
    )
    first = await connection.fetchval("SELECT coalesce(max(seq), 0) FROM bench_events")
    count, start = 0, perf_counter()
    while perf_counter() < start + SECONDS:
        columns[2] = list(range(first + count + 1, first + count + size + 1))
        await insert.fetch(*columns)
        count += size
    return count / (perf_counter() - start)
