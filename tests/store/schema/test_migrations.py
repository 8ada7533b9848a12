"""The schema: made from nothing, once, by however many replicas, and equal to the table classes."""

from __future__ import annotations

import asyncio
from itertools import count
from time import perf_counter
from urllib.parse import urlsplit, urlunsplit

import asyncpg
import pytest
from alembic.script import ScriptDirectory

from alembic import command
from app.errors import StoreUnavailable
from app.store.open import Store
from app.store.schema.migrations import HEAD, alembic_config, migrate
from tests.support.database.postgres import wake
from tests.support.log.seals import SEAL

pytestmark = pytest.mark.postgres

_numbers = count(1)


@pytest.fixture
def empty(dsn: str) -> str:
    """A database of the same server with nothing in it.

    It goes with the server: dropping it would wait for whatever every other backend is doing.
    """
    name = f"empty_{next(_numbers)}"

    async def create() -> None:
        connection = await asyncpg.connect(dsn)
        await connection.execute(f"CREATE DATABASE {name}")
        await connection.close()

    asyncio.run(create())
    return urlunsplit(urlsplit(dsn)._replace(path=f"/{name}"))


def test_several_replicas_migrate_an_empty_database_at_once(empty: str) -> None:
    async def all_at_once() -> list[bool]:
        return await asyncio.gather(*(migrate(empty) for _ in range(3)))

    assert sorted(asyncio.run(all_at_once())) == [False, False, True]
    # Made by hand and described by classes: the two must not drift apart.
    command.check(alembic_config(empty))
    command.downgrade(alembic_config(empty), "base")
    command.upgrade(alembic_config(empty), "head")


def test_a_database_that_is_not_migrated_is_not_ready(empty: str) -> None:
    async def ready() -> None:
        async with Store.open(empty, seal=SEAL, process="p") as store:
            await store.database.ready()

    with pytest.raises(StoreUnavailable, match="migrated"):
        asyncio.run(ready())


def test_the_release_knows_its_newest_migration() -> None:
    scripts = ScriptDirectory.from_config(alembic_config("postgresql:///none"))
    assert scripts.get_current_head() == HEAD


async def test_with_nothing_to_do_it_is_quick(dsn: str) -> None:
    best = 1.0
    for _ in range(5):
        begun = perf_counter()
        assert await migrate(dsn) is False
        best = min(best, perf_counter() - begun)
    assert best < 0.05


async def test_a_migrated_database_is_ready(store: Store) -> None:
    facts = await store.database.ready()
    assert (facts["database"], facts["migration"]) == (True, "0020")


async def test_f85_no_table_of_ours_takes_an_order_from_a_sequence(store: Store) -> None:
    sequences = await store.everyone.pool.fetch(
        "SELECT schemaname, sequencename FROM pg_sequences WHERE schemaname = 'public'"
    )
    assert sequences == []


async def test_every_table_has_the_tenant(store: Store) -> None:
    without = await store.everyone.pool.fetch(
        """SELECT t.table_name FROM information_schema.tables t
        WHERE t.table_schema = 'public' AND NOT EXISTS (
            SELECT FROM information_schema.columns c WHERE c.table_schema = 'public'
                AND c.table_name = t.table_name AND c.column_name = 'tenant')
        ORDER BY 1"""
    )
    assert [row["table_name"] for row in without] == ["alembic_version", "service_keys", "tenants"]


async def test_the_log_of_jobs_does_not_grow(store: Store) -> None:
    await wake(store, "conv_logged")
    assert await store.everyone.pool.fetchval("SELECT count(*) FROM tgq.pgqueuer_log") == 0
