"""Turns found by meaning, in a real Postgres with pgvector (run-context.md 5.3)."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from app.ids import Identity
from app.runctx.memory import (
    ConversationTurn,
    EmbedderMismatch,
    EmbeddingFailed,
    EmptyQuery,
    MemorySettings,
    SemanticDisabled,
)
from tests.support.played.embedder import PlayedEmbedder

if TYPE_CHECKING:
    from app.runctx.memory import RecallScope
    from app.store.memory.plain import StoreMemory
    from app.store.open import Store

pytestmark = [pytest.mark.postgres, pytest.mark.vectors]

NOON = datetime(2026, 11, 29, 12, tzinfo=UTC)
WORDS = ("deploy", "cake")
SEMANTIC = MemorySettings(strategy="truncation", is_semantic=True)


@pytest.fixture
def who(tenant: str) -> Identity:
    return Identity(tenant, "alice", "conv_1")


@pytest.fixture
def embedder(tenant: str) -> PlayedEmbedder:
    return PlayedEmbedder(tenant, WORDS)


async def remembering(store: Store, embedder: PlayedEmbedder) -> StoreMemory:
    return (await store.recalling(embedder)).memory(SEMANTIC, model="script")


def said(text: str, answer: str = "", *, minute: int = 0) -> ConversationTurn:
    at = NOON + timedelta(minutes=minute)
    return ConversationTurn(user_message=text, assistant_response=answer, at=at)


async def found(
    memory: StoreMemory, who: Identity, query: str, *, top_k: int = 5, user: bool = False
) -> list[str]:
    scope: RecallScope = "user" if user else "session"
    result = await memory.search_turns(who, query, top_k=top_k, scope=scope)
    return [hit.turn.user_message for hit in result.hits]


async def test_what_is_nearest_comes_first_with_its_turn_and_score(
    store: Store, who: Identity, embedder: PlayedEmbedder
) -> None:
    memory = await remembering(store, embedder)
    for turn in (said("cake", "sweet"), said("deploy", "cake"), said("deploy", "it")):
        await memory.add_turn(who, turn)
    result = await memory.search_turns(who, "deploy", top_k=2, scope="session")
    assert [hit.turn.assistant_response for hit in result.hits] == ["it", "cake"]
    assert [hit.score for hit in result.hits] == pytest.approx([1.0, 0.5**0.5])
    assert (result.top_k, result.unindexed) == (2, 0)
    assert (result.hits[0].turn.session, result.hits[0].turn.at) == ("conv_1", NOON)


@pytest.mark.parametrize("top_k", [0, -1])
async def test_c117_without_a_limit_five_come_and_ties_go_to_the_newer(
    store: Store, who: Identity, embedder: PlayedEmbedder, top_k: int
) -> None:
    """C117: five results, ties newer first."""
    memory = await remembering(store, embedder)
    for minute in range(7):
        await memory.add_turn(who, said(f"deploy {minute}", minute=minute))
    result = await memory.search_turns(who, "deploy", top_k=top_k, scope="session")
    assert [hit.turn.user_message for hit in result.hits] == [
        f"deploy {m}" for m in range(6, 1, -1)
    ]
    assert result.top_k == 5


@pytest.mark.parametrize("query", ["", " \n"])
async def test_c117_an_empty_query_is_an_error_and_not_embedded(
    store: Store, who: Identity, embedder: PlayedEmbedder, query: str
) -> None:
    """C117: `EmptyQuery`."""
    memory = await remembering(store, embedder)
    with pytest.raises(EmptyQuery):
        await memory.search_turns(who, query, top_k=5, scope="session")
    assert embedder.asked == []


async def test_a_memory_without_meaning_says_so(store: Store, who: Identity) -> None:
    memory = store.memory(MemorySettings(strategy="truncation"), model="script")
    with pytest.raises(SemanticDisabled):
        await memory.search_turns(who, "deploy", top_k=5, scope="session")


async def test_a_scope_is_a_session_or_everything_of_one_user(
    store: Store, who: Identity, embedder: PlayedEmbedder
) -> None:
    memory = await remembering(store, embedder)
    places = (who, replace(who, session="conv_2"), replace(who, user="bob"))
    for place, text in zip(places, ("deploy here", "deploy there", "deploy bob"), strict=True):
        await memory.add_turn(place, said(text))
    assert await found(memory, who, "deploy") == ["deploy here"]
    assert set(await found(memory, who, "deploy", user=True)) == {"deploy here", "deploy there"}


async def test_both_sides_are_embedded_and_of_a_blank_one_nothing(
    store: Store, who: Identity, embedder: PlayedEmbedder
) -> None:
    memory = await remembering(store, embedder)
    for turn in (said("a", "b"), said(" ", "b"), said("a", "\n"), said("", " ")):
        await memory.add_turn(who, turn)
    assert embedder.asked == ["a\nb", "b", "a"]
    result = await memory.search_turns(who, "a", top_k=9, scope="session")
    assert (len(result.hits), result.unindexed) == (3, 0)


async def test_c119_a_turn_that_cannot_be_embedded_is_not_stored(
    store: Store, who: Identity, embedder: PlayedEmbedder
) -> None:
    """C119: the window is unchanged."""
    memory = await remembering(store, embedder)
    await memory.add_turn(who, said("deploy"))
    embedder.is_broken = True
    with pytest.raises(EmbeddingFailed):
        await memory.add_turn(who, said("cake"))
    patch = await memory.get_llm_context(who)
    assert [turn.user_message for turn in patch.recent_turns] == ["deploy"]


async def test_c118_a_flush_forgets_vectors(
    store: Store, who: Identity, embedder: PlayedEmbedder
) -> None:
    """C118: turns and vectors are gone; those of another session stay."""
    memory, there = await remembering(store, embedder), replace(who, session="conv_2")
    for place in (who, there):
        await memory.add_turn(place, said("deploy"))
    await memory.flush(who)
    assert await found(memory, who, "deploy") == []
    assert len(await found(memory, who, "deploy", user=True)) == 1
    count = "SELECT count(*) FROM memory_vectors WHERE tenant = $1"
    assert await store.everyone.pool.fetchval(count, who.tenant) == 1


async def test_c120_another_embedders_turns_are_an_error(
    store: Store, who: Identity, embedder: PlayedEmbedder
) -> None:
    """C120: `EmbedderMismatch` naming `turngate rebuild memory`."""
    await (await remembering(store, embedder)).add_turn(who, said("deploy"))
    other = await remembering(store, PlayedEmbedder(f"{who.tenant}:2", ("deploy",)))
    with pytest.raises(EmbedderMismatch, match="turngate rebuild memory"):
        await found(other, who, "deploy")


async def test_c120_newer_turns_do_not_hide_that_the_older_are_another_embedders(
    store: Store, who: Identity, embedder: PlayedEmbedder
) -> None:
    """C120: in a scope where some were embedded by either, and none by either alone."""
    other = PlayedEmbedder(f"{who.tenant}:2", ("deploy",))
    await (await remembering(store, other)).add_turn(replace(who, session="conv_2"), said("deploy"))
    memory = await remembering(store, embedder)
    await memory.add_turn(who, said("deploy"))
    assert await found(memory, who, "deploy") == ["deploy"]
    with pytest.raises(EmbedderMismatch, match="turngate rebuild memory"):
        await found(memory, who, "deploy", user=True)


async def test_c121_turns_from_before_are_counted(
    store: Store, who: Identity, embedder: PlayedEmbedder
) -> None:
    """C121: turns older than the mode are counted in `unindexed`."""
    window = store.memory(MemorySettings(strategy="truncation"), model="script")
    for turn in (said("deploy then"), said(" ", "\n"), said("\u2003", "\u00a0")):
        await window.add_turn(who, turn)
    memory = await remembering(store, embedder)
    await memory.add_turn(who, said("deploy now"))
    result = await memory.search_turns(who, "deploy", top_k=5, scope="user")
    assert [hit.turn.user_message for hit in result.hits] == ["deploy now"]
    assert result.unindexed == 1


async def test_without_a_strategy_turns_are_stored_to_be_found(
    store: Store, who: Identity, embedder: PlayedEmbedder
) -> None:
    recalling = await store.recalling(embedder)
    memory = recalling.memory(MemorySettings(is_semantic=True), model="script")
    await memory.add_turn(who, said("deploy"))
    assert await found(memory, who, "deploy") == ["deploy"]
    assert not (await memory.get_llm_context(who)).recent_turns
