"""Turns that were embedded otherwise, or not at all, are embedded anew (run-context.md 5.3)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from app.ids import Identity
from app.runctx.memory import ConversationTurn, EmbedderMismatch, EmbeddingFailed, MemorySettings
from app.store.memory.recall import StoreRecall
from tests.support.played.embedder import PlayedEmbedder

if TYPE_CHECKING:
    from app.store.memory.plain import StoreMemory
    from app.store.open import Store

pytestmark = [pytest.mark.postgres, pytest.mark.vectors]

WORDS = ("deploy", "cake")
WINDOW = MemorySettings(strategy="truncation")
SEMANTIC = MemorySettings(strategy="truncation", is_semantic=True)


@pytest.fixture
def who(tenant: str) -> Identity:
    return Identity(tenant, "alice", "conv_1")


def said(text: str) -> ConversationTurn:
    return ConversationTurn(user_message=text, assistant_response="", at=None)


async def recalling(store: Store, embedder: PlayedEmbedder) -> StoreMemory:
    return (await store.recalling(embedder)).memory(SEMANTIC, model="script")


async def rebuilt(store: Store, embedder: PlayedEmbedder) -> int:
    recall = await StoreRecall.opened(store.pool, embedder)
    assert recall is not None
    return await recall.rebuild(store.everyone)


async def found(memory: StoreMemory, who: Identity, query: str) -> list[str]:
    result = await memory.search_turns(who, query, top_k=5, scope="session")
    assert result.unindexed == 0
    return [hit.turn.user_message for hit in result.hits]


async def test_c121_turns_from_before_are_found_afterwards(
    store: Store, tenant: str, who: Identity
) -> None:
    plain = store.memory(WINDOW, model="script")
    for text in ("deploy it", "a cake", " \n"):
        await plain.add_turn(who, said(text))
    embedder = PlayedEmbedder(f"{tenant}:1", WORDS)
    memory = await recalling(store, embedder)
    before = await memory.search_turns(who, "cake", top_k=5, scope="session")
    assert (before.hits, before.unindexed) == ([], 2)
    assert await rebuilt(store, embedder) >= 2
    assert (await found(memory, who, "cake"))[0] == "a cake"
    assert await rebuilt(store, embedder) == 0


async def test_c120_turns_of_another_embedder_are_found_afterwards(
    store: Store, tenant: str, who: Identity
) -> None:
    first = await recalling(store, PlayedEmbedder(f"{tenant}:1", WORDS))
    await first.add_turn(who, said("a cake"))
    other = PlayedEmbedder(f"{tenant}:2", ("cake",))
    memory = await recalling(store, other)
    with pytest.raises(EmbedderMismatch, match="turngate rebuild memory"):
        await memory.search_turns(who, "cake", top_k=5, scope="session")
    await rebuilt(store, other)
    assert await found(memory, who, "cake") == ["a cake"]


async def test_an_embedder_that_fails_leaves_what_was_done(
    store: Store, tenant: str, who: Identity
) -> None:
    await store.memory(WINDOW, model="script").add_turn(who, said("a cake"))
    embedder = PlayedEmbedder(f"{tenant}:1", WORDS)
    embedder.is_broken = True
    with pytest.raises(EmbeddingFailed):
        await rebuilt(store, embedder)
    embedder.is_broken = False
    assert await rebuilt(store, embedder) >= 1
