"""A database that got pgvector after the migrations is given the table they would have made."""

from __future__ import annotations

import asyncio

import asyncpg
import pytest

from app.errors import Misconfigured
from app.store.memory.recall import StoreRecall
from app.store.schema.migrations import migrate
from app.store.server.connections import open_pool
from tests.store.schema.test_migrations import empty
from tests.support.played.embedder import PlayedEmbedder

__all__ = ["empty"]

pytestmark = pytest.mark.postgres

SHAPE = """
SELECT attname || ' ' || format_type(atttypid, atttypmod) || ' ' || attnotnull AS part
FROM pg_attribute WHERE attrelid = 'memory_vectors'::regclass AND attnum > 0
UNION ALL SELECT indexdef FROM pg_indexes
WHERE tablename = 'memory_vectors' AND indexdef NOT LIKE '%hnsw%'
UNION ALL SELECT pg_get_constraintdef(oid) FROM pg_constraint
WHERE conrelid = 'memory_vectors'::regclass ORDER BY part"""
EMBEDDER = PlayedEmbedder("words:1", ("cake",))


@pytest.mark.vectors
def test_the_table_is_that_of_the_migrations(empty: str) -> None:
    asyncio.run(migrate(empty))
    migrated = asyncio.run(shape(empty))
    assert len(migrated) > 9
    asyncio.run(without_vectors(empty))
    asyncio.run(made(empty))
    assert asyncio.run(shape(empty)) == migrated
    asyncio.run(made(empty))


def test_a_database_without_the_schema_is_left_alone(empty: str) -> None:
    with pytest.raises(Misconfigured, match="pgvector"):
        asyncio.run(made(empty))


async def made(dsn: str) -> None:
    async with await open_pool(dsn) as pool:
        await StoreRecall.made(pool, EMBEDDER)


async def shape(dsn: str) -> list[str]:
    async with await open_pool(dsn) as pool:
        return [row["part"] for row in await pool.fetch(SHAPE)]


async def without_vectors(dsn: str) -> None:
    connection = await asyncpg.connect(dsn)
    await connection.execute("DROP TABLE memory_vectors; DROP EXTENSION vector")
    await connection.close()
