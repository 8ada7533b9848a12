"""How long memory is kept: turns go by their age, summaries with the last turn of their session."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from app.ids import Identity
from app.runctx.memory import MemorySettings
from tests.store.memory.test_plain import said

if TYPE_CHECKING:
    from app.store.open import Store

pytestmark = [pytest.mark.postgres, pytest.mark.vectors]

# Turn 1 is of 1 January 2001, turn 2 of a year later, and so on: older than those of other tests.
AGED = "UPDATE memory_turns SET created_at = make_date(2000 + seq::int, 1, 1) WHERE tenant = $1"
SUMMARY = """
INSERT INTO memory_state VALUES
    ($1, 'alice', 'conv_1', 'rolling_summary', 'script', 'so far', 0, 1, 'healthy', 0, '[]')"""
VECTORS = """
INSERT INTO memory_vectors SELECT tenant, turn_id, principal, conversation_id, at, 'e', '[1,0,0]'
FROM memory_turns WHERE tenant = $1"""
LEFT = "SELECT count(*) FROM {table} WHERE tenant = $1"


async def left(store: Store, tenant: str) -> list[int]:
    """How many turns, vectors and summaries there are."""
    tables = ("memory_turns", "memory_vectors", "memory_state")
    return [await store.everyone.pool.fetchval(LEFT.format(table=name), tenant) for name in tables]


async def test_old_turns_go_with_their_vectors_and_the_last_with_the_summary(
    store: Store, tenant: str
) -> None:
    who = Identity(tenant, "alice", "conv_1")
    memory = store.memory(MemorySettings(strategy="truncation"), model="script")
    for number in (1, 2, 3):
        await memory.add_turn(who, said(number))
    for statement in (AGED, SUMMARY, VECTORS):
        await store.everyone.pool.execute(statement, tenant)
    await store.queue.forget_memory(datetime(2002, 6, 1, tzinfo=UTC), 1)
    assert await left(store, tenant) == [2, 2, 1]
    await store.queue.forget_memory(datetime(2002, 6, 1, tzinfo=UTC), 1000)
    assert await left(store, tenant) == [1, 1, 1]
    assert [turn.run for turn in (await memory.get_llm_context(who)).recent_turns] == ["run_3"]
    await store.queue.forget_memory(datetime(2003, 6, 1, tzinfo=UTC), 1000)
    assert await left(store, tenant) == [0, 0, 0]
    assert (await memory.add_turn(who, said(4))).is_new
