"""Up to how many rows all are compared, and how the index is read above (run-context.md 5.3).

What is asked of Postgres is read off the driver, and then asked again with EXPLAIN.
"""

from __future__ import annotations

import hashlib
import inspect
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from app.ids import Identity
from app.store.memory.vectors import EXACT_ROWS, StoreVectors
from app.store.server.connections import open_pool
from app.store.server.row_security import OneTenant
from tests.support.database.statements import Statements

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from app.runctx.memory import RecallScope
    from app.store.memory.vectors import Near
    from app.store.server.connections import Pool

pytestmark = [pytest.mark.postgres, pytest.mark.vectors]

SCOPES: tuple[RecallScope, ...] = ("session", "user")
EAST = (1.0, 0.0, 0.0)
COUNT, SETTINGS, INDEX, EXACT = "count", "settings", "index", "exact"
NAMES = {
    "AS are_many": COUNT,
    "hnsw.iterative_scan": SETTINGS,
    "embedding::vector(": INDEX,
    "asked AS MATERIALIZED": EXACT,
}
FILL = """
INSERT INTO memory_vectors (tenant, turn_id, principal, conversation_id, at, embedder, embedding)
SELECT $1, 'turn_' || n, 'alice', 'conv_1', now(), $1, ARRAY[1, n * 1e-6, 0]::real[]::vector
FROM generate_series($2::int, $3::int) AS n"""
TURNS = """
INSERT INTO memory_turns (tenant, principal, conversation_id, seq, turn_id, run_id, user_message,
    assistant_response, trust, digest, artifacts_shown, artifacts_hidden, embedded_by)
SELECT $1, 'alice', 'conv_1', n, 'turn_' || n, '', '', '', 1, '', '{}', '{}', $1
FROM generate_series($2::int, $3::int) AS n"""


class Searching:
    """Searches as Alice, and what they ask of the database."""

    def __init__(self, pool: Pool, tenant: str, told: Statements) -> None:
        self.pool, self.tenant, self.told = pool, tenant, told

    async def fill(self, last: int, *, first: int = 1, statement: str = FILL) -> None:
        await self.pool.execute(statement, self.tenant, first, last)

    async def asks(
        self, *, top_k: int = 5, scope: RecallScope = "session", **more: Any
    ) -> tuple[list[str], list[Near]]:
        """What is asked for one search, by name and in order, and what is found."""
        vectors = StoreVectors(self.pool, self.tenant, dimension=3, **more)
        self.told.restart()
        alice = Identity(self.tenant, "alice", "conv_1")
        found = await vectors.nearest(alice, EAST, top_k=top_k, scope=scope)
        return [name for name, _, _ in self.sent()], found

    def sent(self) -> list[tuple[str, str, Sequence[Any]]]:
        """The statements of the search: name, text and arguments."""
        asked = zip(self.told.texts, self.told.arguments, strict=True)
        return [
            (name, text, arguments)
            for text, arguments in asked
            for part, name in NAMES.items()
            if part in text
        ]

    async def plan(self, name: str) -> str:
        """How Postgres does what was asked under that name, if it may not sort."""
        (text, arguments) = next(sent[1:] for sent in self.sent() if sent[0] == name)
        async with OneTenant(self.pool, self.tenant).transaction() as connection:
            await connection.execute("SET LOCAL enable_sort = off")
            rows = await connection.fetch(f"EXPLAIN {text}", *arguments)
        return "\n".join(row[0] for row in rows)


@asynccontextmanager
async def searching(
    dsn: str, tenant: str, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Searching]:
    told = Statements(monkeypatch)
    async with await open_pool(dsn) as pool:
        yield Searching(pool, tenant, told)


@pytest.mark.parametrize("scope", SCOPES)
async def test_as_many_rows_as_may_be_are_compared_and_one_more_is_for_the_index(
    dsn: str, tenant: str, monkeypatch: pytest.MonkeyPatch, scope: RecallScope
) -> None:
    async with searching(dsn, tenant, monkeypatch) as alice:
        await alice.fill(50)
        assert (await alice.asks(exact_rows=50, scope=scope))[0] == [COUNT, EXACT]
        assert (await alice.asks(exact_rows=49, scope=scope))[0] == [COUNT, SETTINGS, INDEX]


async def test_twenty_thousand_rows_are_compared(
    dsn: str, tenant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bound as it is, by the numbers of the turns and by the vectors themselves."""
    assert EXACT_ROWS == 20_000
    assert inspect.signature(StoreVectors).parameters["exact_rows"].default == 20_000
    async with searching(dsn, tenant, monkeypatch) as alice:
        await alice.fill(20_000)
        assert (await alice.asks())[0] == [COUNT, EXACT]
        await alice.fill(20_000, statement=TURNS)
        assert (await alice.asks())[0] == [COUNT, EXACT]
        await alice.fill(20_001, first=20_001)
        await alice.fill(20_001, first=20_001, statement=TURNS)
        for scope in SCOPES:
            asked, found = await alice.asks(scope=scope)
            assert asked == [COUNT, SETTINGS, INDEX]
            assert len(found) == 5


async def test_fewer_than_were_wanted_are_looked_for_among_all(
    dsn: str, tenant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with searching(dsn, tenant, monkeypatch) as alice:
        await alice.fill(51)
        asked, found = await alice.asks(exact_rows=50, top_k=60)
        assert asked == [COUNT, SETTINGS, INDEX, EXACT]
        assert len(found) == 51
        asked, found = await alice.asks(exact_rows=50, top_k=51)
        assert asked == [COUNT, SETTINGS, INDEX]
        assert len(found) == 51


@pytest.mark.parametrize(("top_k", "candidates"), [(0, "40"), (10, "40"), (11, "44"), (50, "200")])
async def test_the_index_is_read_strictly_in_order_and_in_its_transaction_alone(
    dsn: str, tenant: str, monkeypatch: pytest.MonkeyPatch, top_k: int, candidates: str
) -> None:
    """`hnsw.iterative_scan = strict_order`, `hnsw.ef_search = max(40, 4 * top_k)`."""
    async with searching(dsn, tenant, monkeypatch) as alice:
        await alice.fill(60)
        # The second search, for a connection learns about types at its first.
        for _ in range(2):
            await alice.asks(exact_rows=50, top_k=top_k)
        begun = max(at for at, text in enumerate(alice.told.texts) if text.startswith("BEGIN"))
        words = [text.split()[0] for text in alice.told.texts[begun:]]
        assert words[:4] == ["BEGIN", "SELECT", "SELECT", "COMMIT"]
        (_, text, arguments) = alice.sent()[1]
        async with alice.pool.acquire() as connection:
            async with connection.transaction():
                await connection.execute(text, *arguments)
                assert await settings_of(connection) == ("strict_order", candidates)
            assert await settings_of(connection) == ("off", "40")


async def test_the_statement_is_one_that_the_embedders_own_index_serves(
    dsn: str, tenant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An index that its own question cannot use makes every search a comparison of all."""
    mark = hashlib.sha256(tenant.encode()).hexdigest()[:16]
    async with searching(dsn, tenant, monkeypatch) as alice:
        await StoreVectors(alice.pool, tenant, dimension=3).prepare()
        await alice.fill(60)
        await alice.asks(exact_rows=50, top_k=60)
        await alice.asks(exact_rows=50, top_k=61)
        assert f"Index Scan using ix_memory_vectors_{mark}" in await alice.plan(INDEX)
        assert f"ix_memory_vectors_{mark}" not in await alice.plan(EXACT)
        made = await alice.pool.fetchval(
            "SELECT indexdef FROM pg_indexes WHERE indexname = $1", f"ix_memory_vectors_{mark}"
        )
    assert "USING hnsw" in made
    assert "vector_cosine_ops" in made
    assert "m='16', ef_construction='64'" in made
    assert f"WHERE (embedder = '{tenant}'::text)" in made


async def settings_of(connection: Any) -> tuple[str, str]:
    """How an index of vectors is read there."""
    row = await connection.fetchrow(
        "SELECT current_setting('hnsw.iterative_scan'), current_setting('hnsw.ef_search')"
    )
    return row[0], row[1]
