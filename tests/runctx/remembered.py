"""Turns of memory and what is found of them, for the tests of this room."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from app.ids import Identity
from app.runctx.fetch import fetch_memory_blocks
from app.runctx.memory import ConversationTurn, RecallSettings, TurnHit

if TYPE_CHECKING:
    from app.runctx.memory import MemoryFetch
    from app.runctx.ports import MemoryStore

ALICE = Identity("acme", "alice", "conv_1")
RECALL = RecallSettings(enabled=True)
NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)


def turn(user: str = "hi", assistant: str = "hello", **members: Any) -> ConversationTurn:
    """A turn of Alice's session, without a time unless one is given."""
    given: dict[str, Any] = {"at": None, "turn_id": f"t-{user[:40]}", "session": ALICE.session}
    return ConversationTurn(user_message=user, assistant_response=assistant, **(given | members))


def hit(user: str = "hi", assistant: str = "hello", score: float = 0.5, **members: Any) -> TurnHit:
    """A turn that was found."""
    return TurnHit(turn(user, assistant, **members), score)


async def fetched(
    store: MemoryStore, query: str = "hi", recall: RecallSettings = RECALL, **more: Any
) -> MemoryFetch:
    """What is fetched for Alice, unless for somebody else."""
    identity = more.pop("identity", ALICE)
    return await fetch_memory_blocks(store, identity, query=query, recall=recall, **more)


def recalled(fetch: MemoryFetch) -> list[dict[str, Any]]:
    """The entries of the external tier, which must be there and hold nothing else."""
    assert fetch.blocks is not None
    external: Any = fetch.blocks.external
    assert list(external) == ["recalled_turns"]
    entries: list[dict[str, Any]] = external["recalled_turns"]
    return entries
