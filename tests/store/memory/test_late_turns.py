"""A turn that is stored late comes in its place in time, and is folded once like any other."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio

from app.ids import Identity
from app.runctx.memory import MemorySettings
from app.store.memory.folding import Folding, FoldTimes
from app.store.memory.rolling import RollingMemory
from tests.store.memory.test_plain import NOON, said
from tests.store.memory.test_rolling import Notes, aged, running, shown

if TYPE_CHECKING:
    from app.runctx.memory import ConversationTurn
    from app.store.open import Store

pytestmark = pytest.mark.postgres

NUMBERS = "SELECT array_agg(seq ORDER BY seq) FROM memory_turns WHERE tenant = $1"


@pytest.fixture
def who(tenant: str) -> Identity:
    return Identity(tenant, "alice", f"conv-{tenant}")


@pytest.fixture
def notes() -> Notes:
    return Notes()


@pytest_asyncio.fixture
async def folding(store: Store, notes: Notes) -> Folding:
    # A look takes whatever waits in the database; what earlier tests left there is not meant.
    await store.everyone.pool.execute("DELETE FROM memory_state")
    return Folding(store.pool, store.everyone, notes.of, FoldTimes(tick_s=3600))


def at_its_hour(number: int) -> ConversationTurn:
    return said(number, at=NOON + timedelta(hours=number))


def rolling(store: Store, folding: Folding) -> RollingMemory:
    settings = MemorySettings(strategy="rolling_summary", recent_turns=2)
    return RollingMemory(store.pool, settings, folding=folding, model="script")


@pytest.mark.parametrize("late", [1, 2, 3, 4])
async def test_a_window_shows_it_between_those_of_before_and_after(
    store: Store, who: Identity, late: int
) -> None:
    memory = store.memory(MemorySettings(strategy="truncation"), model="script")
    for number in (1, 2, 3, 4):
        if number != late:
            await memory.add_turn(who, at_its_hour(number))
    written = await memory.add_late_turn(who, at_its_hour(late))
    assert written.is_new
    assert not (await memory.add_late_turn(who, at_its_hour(late))).is_new
    patch = await memory.get_llm_context(who)
    assert [turn.run for turn in patch.recent_turns] == ["run_1", "run_2", "run_3", "run_4"]
    assert await store.everyone.pool.fetchval(NUMBERS, who.tenant) == [1, 2, 3, 4]


async def test_one_without_a_time_and_one_of_an_equal_time_are_the_newest(
    store: Store, who: Identity
) -> None:
    memory = store.memory(MemorySettings(strategy="truncation"), model="script")
    await memory.add_turn(who, said(1))
    await memory.add_late_turn(who, said(2))
    await memory.add_late_turn(who, said(3, at=None))
    patch = await memory.get_llm_context(who)
    assert [turn.run for turn in patch.recent_turns] == ["run_1", "run_2", "run_3"]


async def add(memory: RollingMemory, who: Identity, *numbers: int) -> None:
    for number in numbers:
        await memory.add_turn(who, at_its_hour(number))


async def test_what_waits_to_be_folded_takes_it_up(
    store: Store, who: Identity, notes: Notes, folding: Folding
) -> None:
    memory = rolling(store, folding)
    # Nothing folds yet: the first range is claimed, two more wait.
    await add(memory, who, 1, 2, 4, 5, 6)
    await memory.add_late_turn(who, at_its_hour(3))
    await aged(store, who)
    await folding.look()
    assert await shown(memory, who) == ("1 2 3 4", ["run_5", "run_6"], 0)
    assert notes.folded == ["1", "2", "3", "4"]


async def test_behind_a_summary_it_is_the_next_to_be_folded(
    store: Store, who: Identity, folding: Folding
) -> None:
    memory = rolling(store, folding)
    async with running(folding):
        await add(memory, who, 2, 3, 4, 5, 6)
        assert await shown(memory, who) == ("2 3 4", ["run_5", "run_6"], 0)
        await memory.add_late_turn(who, at_its_hour(1))
        assert await shown(memory, who) == ("2 3 4 1", ["run_5", "run_6"], 0)


async def test_what_is_being_folded_stays_as_it_is(
    store: Store, who: Identity, notes: Notes, folding: Folding
) -> None:
    memory = rolling(store, folding)
    notes.gate.clear()
    async with running(folding):
        await add(memory, who, 2, 3, 4)
        await notes.asked.wait()
        await memory.add_late_turn(who, at_its_hour(1))
        notes.gate.set()
        assert await shown(memory, who) == ("2 1", ["run_3", "run_4"], 0)


async def test_another_strategy_leaves_the_queue_in_order(
    store: Store, who: Identity, folding: Folding
) -> None:
    memory = rolling(store, folding)
    await add(memory, who, 1, 2, 4, 5)
    plain = store.memory(MemorySettings(strategy="truncation"), model="script")
    await plain.add_late_turn(who, at_its_hour(3))
    await aged(store, who)
    await folding.look()
    # The window has grown by one meanwhile, which spills with the next turn.
    assert await shown(memory, who) == ("1 2", ["run_4", "run_5"], 1)
    await memory.add_turn(who, at_its_hour(6))
    await aged(store, who)
    await folding.look()
    assert await shown(memory, who) == ("1 2 3 4", ["run_5", "run_6"], 0)
