"""Vectors in a real Postgres with pgvector: three dimensions, so that thousands are quick to make.

The rows of a test are its tenant's, and its embedder is its own.
"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from app.errors import IdentityRequired, Misconfigured
from app.ids import Identity
from app.runctx.memory import EmbedderMismatch
from app.store.memory.vectors import Near, StoreVectors
from app.store.open import Store
from app.store.schema.migrations import migrate
from tests.support.database.external_postgres import OLDEST, postgres_15
from tests.support.log.seals import SEAL

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

pytestmark = [pytest.mark.postgres, pytest.mark.vectors]

NOON = datetime(2026, 11, 29, 12, tzinfo=UTC)
EAST, NORTH = (1.0, 0.0, 0.0), (0.0, 1.0, 0.0)
FIVE = {f"t{n}": (0.6, 0.8, n / 10) for n in range(5)}
OTHERS = """
INSERT INTO memory_vectors (tenant, turn_id, principal, conversation_id, at, embedder, embedding)
SELECT $1 || n % 100, 'turn_' || n, 'alice', 'conv_1', now(), $2,
    ARRAY[1, n * 1e-8, 0]::real[]::vector
FROM generate_series(1, $3::int) AS n"""
TURNS = """
INSERT INTO memory_turns (tenant, principal, conversation_id, seq, turn_id, run_id, user_message,
    assistant_response, trust, digest, artifacts_shown, artifacts_hidden, embedded_by)
SELECT $1, 'alice', 'conv_1', n, 'm' || n, '', '', '', 1, '', '{}', '{}', ''
FROM unnest($2::int[]) AS n"""


def alice(tenant: str, session: str = "conv_1") -> Identity:
    return Identity(tenant, "alice", session)


async def opened(store: Store, embedder: str, *, exact_rows: int = 20_000) -> StoreVectors:
    vectors = StoreVectors(store.pool, embedder, dimension=3, exact_rows=exact_rows)
    await vectors.prepare()
    return vectors


async def keep(
    store: Store,
    vectors: StoreVectors,
    identity: Identity,
    turns: Mapping[str, Sequence[float]],
    *,
    minute: int = 0,
) -> None:
    async with store.everyone.pool.acquire() as connection:
        for turn_id, vector in turns.items():
            at = NOON + timedelta(minutes=minute)
            await vectors.put(connection, identity, turn_id, at=at, vector=vector)


async def test_the_score_is_the_cosine_best_first(store: Store, tenant: str) -> None:
    vectors, who = await opened(store, tenant), alice(tenant)
    await keep(store, vectors, who, {"t1": NORTH, "t2": (-1.0, 0.0, 0.0), "t3": (0.6, 0.8, 0.0)})
    found = await vectors.nearest(who, EAST, top_k=3, scope="session")
    assert [one.turn_id for one in found] == ["t3", "t1", "t2"]
    assert [one.score for one in found] == pytest.approx([0.6, 0.0, -1.0])


async def test_c117_five_are_the_default_and_ties_go_to_the_newer(
    store: Store, tenant: str
) -> None:
    """C117: given limit 0, then 5 results, sorted, ties newer first; then by id."""
    vectors, who = await opened(store, tenant), alice(tenant)
    await keep(store, vectors, who, {"t4": EAST, "t3": EAST, "t2": EAST})
    await keep(store, vectors, who, {"t6": EAST, "t5": EAST, "t1": NORTH}, minute=1)
    found = await vectors.nearest(who, EAST, top_k=0, scope="session")
    assert [one.turn_id for one in found] == ["t5", "t6", "t2", "t3", "t4"]


async def test_a_scope_is_a_session_or_everything_of_one_user(store: Store, tenant: str) -> None:
    vectors = await opened(store, tenant)
    here, there, bob = alice(tenant), alice(tenant, "conv_2"), Identity(tenant, "bob", "conv_1")
    for at, who in enumerate((here, there, bob)):
        await keep(store, vectors, who, {f"t{at}": EAST})
    session = await vectors.nearest(here, EAST, top_k=9, scope="session")
    user = await vectors.nearest(here, EAST, top_k=9, scope="user")
    assert [one.turn_id for one in session] == ["t0"]
    assert [one.turn_id for one in user] == ["t0", "t1"]


async def test_c120_another_embedders_vectors_are_an_error(store: Store, tenant: str) -> None:
    """C120: `EmbedderMismatch` naming `turngate rebuild memory`; once replaced, then results."""
    old, new = await opened(store, f"{tenant}-old"), await opened(store, f"{tenant}'new")
    await keep(store, old, alice(tenant), {"t1": EAST})
    with pytest.raises(EmbedderMismatch, match="turngate rebuild memory"):
        await new.nearest(alice(tenant), EAST, top_k=1, scope="session")
    await keep(store, new, alice(tenant), {"t1": EAST})
    assert await new.nearest(alice(tenant), EAST, top_k=1, scope="session") == [Near("t1", 1.0)]


async def test_with_no_vectors_at_all_nothing_is_found(store: Store, tenant: str) -> None:
    vectors = await opened(store, tenant)
    assert await vectors.nearest(alice(tenant), EAST, top_k=1, scope="user") == []


async def test_a_turn_of_another_session_is_not_replaced(store: Store, tenant: str) -> None:
    vectors = await opened(store, tenant)
    await keep(store, vectors, alice(tenant), {"t1": EAST})
    await keep(store, vectors, Identity(tenant, "bob", "conv_1"), {"t1": NORTH})
    (found,) = await vectors.nearest(alice(tenant), EAST, top_k=1, scope="session")
    assert found.score == pytest.approx(1.0)


async def test_c122_nearer_turns_of_others_hide_none(store: Store, tenant: str) -> None:
    """C122: 50 000 nearer turns of other tenants and 5 of this user; all 5 come."""
    vectors = StoreVectors(store.pool, f"{tenant}:many", dimension=3)
    await store.everyone.pool.execute(OTHERS, f"{tenant}-other-", f"{tenant}:many", 50_000)
    await keep(store, vectors, alice(tenant), FIVE)
    found = await vectors.nearest(alice(tenant), EAST, top_k=5, scope="session")
    assert [one.turn_id for one in found] == list(FIVE)


async def test_where_the_index_gives_up_all_are_compared(store: Store, tenant: str) -> None:
    """C122 by the index, which looks at 20 000 rows of whoever's."""
    vectors = StoreVectors(store.pool, f"{tenant}:many", dimension=3, exact_rows=0)
    await store.everyone.pool.execute(OTHERS, f"{tenant}-other-", f"{tenant}:many", 21_000)
    await keep(store, vectors, alice(tenant), FIVE)
    await vectors.prepare()
    found = await vectors.nearest(alice(tenant), EAST, top_k=5, scope="session")
    assert [one.turn_id for one in found] == list(FIVE)


async def test_many_rows_in_scope_are_found_by_the_index(store: Store, tenant: str) -> None:
    vectors = await opened(store, tenant, exact_rows=50)
    turns = {f"t{n:03d}": (1.0, n / 100, 0.0) for n in range(200)}
    await keep(store, vectors, alice(tenant), turns)
    found = await vectors.nearest(alice(tenant), EAST, top_k=3, scope="user")
    assert [one.turn_id for one in found] == ["t000", "t001", "t002"]


@pytest.mark.parametrize("numbers", [[1, 2], [1, 90]], ids=["few turns", "a gap in their numbers"])
async def test_few_turns_of_a_session_with_many_elsewhere_are_all_compared(
    store: Store, tenant: str, numbers: list[int]
) -> None:
    vectors = await opened(store, tenant, exact_rows=50)
    await store.everyone.pool.execute(TURNS, tenant, numbers)
    await keep(store, vectors, alice(tenant), {"m1": EAST, "m2": NORTH})
    others = {f"t{n:03d}": (1.0, n / 100, 0.0) for n in range(60)}
    await keep(store, vectors, alice(tenant, "conv_2"), others)
    found = await vectors.nearest(alice(tenant), EAST, top_k=5, scope="session")
    assert [one.turn_id for one in found] == ["m1", "m2"]


async def test_an_incomplete_identity_finds_nothing(store: Store, tenant: str) -> None:
    vectors = await opened(store, tenant)
    with pytest.raises(IdentityRequired):
        await vectors.nearest(Identity(tenant, " ", "conv_1"), EAST, top_k=1, scope="user")


@pytest.mark.skipif(not OLDEST.is_dir(), reason="needs Debian's Postgres 15")
def test_c116_a_database_without_the_extension_runs_without_vectors() -> None:
    """C116: given no `vector` extension, then the store is not built."""

    async def refused(dsn: str) -> None:
        assert await migrate(dsn)
        async with Store.open(dsn, seal=SEAL, process="process-vectors") as store:
            assert (await store.database.ready())["database"]
            with pytest.raises(Misconfigured, match="pgvector"):
                await opened(store, "any")

    with postgres_15() as dsn:
        asyncio.run(refused(dsn))


@pytest.mark.parametrize("top_k", [1, 5, 50, 700])
async def test_the_nearest_of_all_come_wherever_they_lie(
    store: Store, tenant: str, top_k: int
) -> None:
    """The first rows bound what the others are held against, and never cut off a tie."""
    vectors, who = await opened(store, tenant), alice(tenant)
    # Cosines fall from the last turn to the first, and every third has that of the one before.
    far = {n: (n - (n % 3 == 2)) / 600 for n in range(600)}
    turns = {f"t{n:03d}": (x, (1 - x * x) ** 0.5, 0.0) for n, x in far.items()}
    await keep(store, vectors, who, turns)
    found = await vectors.nearest(who, EAST, top_k=top_k, scope="session")
    expected = [f"t{n:03d}" for n in sorted(far, key=lambda n: (-far[n], n))[:top_k]]
    assert [one.turn_id for one in found] == expected
