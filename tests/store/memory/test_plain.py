"""Memory in a real Postgres: turns and windows, one session's at a time (run-context.md 5)."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from structlog.testing import capture_logs

from app.errors import IdentityRequired, Misconfigured
from app.ids import Identity
from app.policy.taint import Trust
from app.runctx.memory import (
    ConversationTurn,
    Health,
    MemorySettings,
    MemoryState,
    MemoryStateMismatch,
    SemanticDisabled,
    StoreClosed,
)

if TYPE_CHECKING:
    from app.store.memory.plain import StoreMemory
    from app.store.open import Store

pytestmark = pytest.mark.postgres

NOON = datetime(2026, 11, 29, 12, tzinfo=UTC)


@pytest.fixture
def who(tenant: str) -> Identity:
    return Identity(tenant, "alice", f"conv-{tenant}")


def said(number: int, **changes: Any) -> ConversationTurn:
    """Two texts of seven octets: each is two tokens."""
    plain = ConversationTurn(
        user_message=f"asked {number}", assistant_response=f"told  {number}", at=NOON
    )
    return replace(plain, run=f"run_{number}", **changes)


def truncating(store: Store, budget: int = 0) -> StoreMemory:
    return store.memory(MemorySettings(strategy="truncation", budget_tokens=budget), model="script")


async def window(memory: StoreMemory, who: Identity) -> list[str]:
    patch = await memory.get_llm_context(who)
    return [turn.user_message for turn in patch.recent_turns]


async def test_c101_without_a_strategy_nothing_is_stored(store: Store, who: Identity) -> None:
    """C101: nothing is stored and the patch is empty."""
    memory = store.memory(MemorySettings(), model="script")
    assert not (await memory.add_turn(who, said(1))).is_new
    patch = await memory.get_llm_context(who)
    assert (patch.summary, list(patch.recent_turns), patch.tokens) == ("", [], 0)
    assert await window(truncating(store), who) == []


async def test_c102_the_oldest_turns_leave_a_budget(store: Store, who: Identity) -> None:
    """C102: the longest suffix within the budget; one turn over it gives an empty window."""
    for number in (1, 2, 3):
        assert (await truncating(store).add_turn(who, said(number))).health is Health.HEALTHY
    assert await window(truncating(store, 8), who) == ["asked 2", "asked 3"]
    assert await window(truncating(store, 7), who) == ["asked 3"]
    assert await window(truncating(store, 3), who) == []
    assert await window(truncating(store), who) == ["asked 1", "asked 2", "asked 3"]
    assert await truncating(store, 8).estimate_tokens(who) == 8


async def test_c115_a_run_writes_one_turn(store: Store, who: Identity) -> None:
    """C115: written twice, also at once, it is one row; turns without a run are all kept."""
    memory = truncating(store)
    both = await asyncio.gather(*(memory.add_turn(who, said(1)) for _ in range(2)))
    assert sorted(one.is_new for one in both) == [False, True]
    assert len({one.turn_id for one in both}) == 1
    for _ in range(2):
        await memory.add_turn(who, replace(said(2), run=""))
    assert await window(memory, who) == ["asked 1", "asked 2", "asked 2"]


async def test_c123_any_text_comes_back(store: Store, who: Identity) -> None:
    """C123: NUL and a lone surrogate are stored and read as they were."""
    odd = said(
        1,
        turn_id="t\0",
        trust=Trust.QUARANTINED_CONTENT,
        digest="d",
        artifacts_shown=("a\0",),
        artifacts_hidden=("b",),
    )
    odd = replace(odd, user_message="\0 \ud800 ä", assistant_response="\uffff\udfff")
    await truncating(store).add_turn(who, odd)
    (turn,) = (await truncating(store).get_llm_context(who)).recent_turns
    assert turn == replace(odd, session=who.session)


@pytest.mark.parametrize("other", ["tenant", "user", "session"])
async def test_another_identity_sees_and_forgets_nothing(
    store: Store, who: Identity, other: str
) -> None:
    memory, stranger = truncating(store), replace(who, **{other: "another"})
    await memory.add_turn(who, said(1))
    await memory.flush(stranger)
    assert await window(memory, stranger) == []
    assert await window(memory, who) == ["asked 1"]


async def test_c118_a_flush_forgets_all(store: Store, who: Identity) -> None:
    """C118: turns and vectors are gone, and the session may remember anew."""
    memory = truncating(store)
    await memory.add_turn(who, said(1))
    await memory.flush(who)
    assert await window(memory, who) == []
    assert (await memory.add_turn(who, said(1))).is_new


async def test_c109_a_closed_store_and_a_missing_user_are_refused(
    store: Store, who: Identity
) -> None:
    """C109: `StoreClosed`; `IdentityRequired` and a notice."""
    memory = truncating(store)
    with capture_logs() as logs, pytest.raises(IdentityRequired):
        await memory.health(replace(who, user=" "))
    assert [entry["event"] for entry in logs] == ["memory.identity_rejected"]
    await memory.aclose()
    for act in (memory.get_llm_context, memory.flush, memory.health, memory.export_state):
        with pytest.raises(StoreClosed):
            await act(who)
    with pytest.raises(StoreClosed):
        await memory.add_turn(who, said(1))


async def test_a_state_goes_to_another_session_and_back(store: Store, who: Identity) -> None:
    memory, there = truncating(store), replace(who, session="there")
    for number in (1, 2):
        await memory.add_turn(who, said(number))
    state = await memory.export_state(who)
    await memory.import_state(there, state)
    assert await window(memory, there) == ["asked 1", "asked 2"]
    await memory.add_turn(who, said(3))
    await memory.import_state(who, state)
    assert await memory.export_state(who) == state


async def test_c108_a_state_of_another_strategy_is_refused(store: Store, who: Identity) -> None:
    """C108: `MemoryStateMismatch`, and nothing changes."""
    memory = truncating(store)
    await memory.add_turn(who, said(1))
    with pytest.raises(MemoryStateMismatch):
        await memory.import_state(who, MemoryState(strategy="rolling_summary"))
    assert await window(memory, who) == ["asked 1"]


async def test_what_the_store_cannot_do_is_refused(store: Store, who: Identity) -> None:
    with pytest.raises(SemanticDisabled):
        await truncating(store).search_turns(who, "asked", top_k=5, scope="session")
    for settings in (MemorySettings(is_semantic=True), MemorySettings(strategy="rolling_summary")):
        with pytest.raises(Misconfigured):
            store.memory(settings, model="script")
