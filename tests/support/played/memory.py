"""Memory without a database: what it offers is said by a test, or kept in a list.

OfferedMemory(patch, hits)      answers with just that, and counts what it is asked
OneMemory(store)                 hands it to every agent
KeptMemory(window=2)            keeps turns by session, and finds those that share words
"""

from __future__ import annotations

import asyncio
import re
from dataclasses import replace
from typing import TYPE_CHECKING

from typing_extensions import override

from app.runctx.memory import (
    EmptyQuery,
    Health,
    LLMContextPatch,
    MemoryState,
    SearchResult,
    SemanticDisabled,
    TurnHit,
    TurnWritten,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from app.ids import Identity
    from app.runctx.memory import ConversationTurn, MemorySettings, RecallScope
    from app.runctx.ports import MemoryStore

DEFAULT_TOP_K = 5


class KeptMemory:
    """Keeps turns in the order written; the newest `window` of a session are its patch."""

    def __init__(self, *, window: int = 0, is_semantic: bool = True) -> None:
        self.window = window
        self.is_semantic = is_semantic
        self.kept: list[tuple[Identity, ConversationTurn]] = []

    async def add_turn(self, identity: Identity, turn: ConversationTurn) -> TurnWritten:
        identity.require()
        own = self._of_session(identity)
        known = next((one for one in own if turn.run and one.run == turn.run), None)
        if known is not None:
            return TurnWritten(known.turn_id, is_new=False, health=Health.HEALTHY)
        turn_id = turn.turn_id or f"turn-{len(self.kept) + 1}"
        written = replace(turn, turn_id=turn_id, session=identity.session)
        self.kept.append((identity.session_scope(), written))
        return TurnWritten(turn_id, is_new=True, health=Health.HEALTHY)

    async def add_late_turn(self, identity: Identity, turn: ConversationTurn) -> TurnWritten:
        return await self.add_turn(identity, turn)

    async def get_llm_context(self, identity: Identity) -> LLMContextPatch:
        identity.require()
        await asyncio.sleep(0)
        shown = self._of_session(identity)[-self.window :] if self.window else []
        return LLMContextPatch(strategy="truncation", recent_turns=shown)

    async def search_turns(
        self, identity: Identity, query: str, *, top_k: int, scope: RecallScope
    ) -> SearchResult:
        identity.require()
        if not query.strip():
            raise EmptyQuery("blank")
        if not self.is_semantic:
            raise SemanticDisabled("off")
        await asyncio.sleep(0)
        most = top_k if top_k > 0 else DEFAULT_TOP_K
        hits = [
            TurnHit(turn, _likeness(query, turn))
            for place, turn in self.kept
            if _is_in_scope(place, identity, scope)
        ]
        hits.sort(key=lambda hit: -hit.score)
        return SearchResult([hit for hit in hits if hit.score > 0][:most], most)

    async def estimate_tokens(self, identity: Identity) -> int:
        return sum(len(turn.user_message) for turn in self._of_session(identity))

    async def flush(self, identity: Identity) -> None:
        self.kept = [one for one in self.kept if one[0] != identity.session_scope()]

    async def health(self, identity: Identity) -> Health:
        identity.require()
        return Health.HEALTHY

    async def export_state(self, identity: Identity) -> MemoryState:
        return MemoryState(strategy="truncation", turns=self._of_session(identity))

    async def import_state(self, identity: Identity, state: MemoryState) -> None:
        for turn in state.turns:
            await self.add_turn(identity, turn)

    async def aclose(self) -> None:
        self.kept.clear()

    def _of_session(self, identity: Identity) -> list[ConversationTurn]:
        return [turn for place, turn in self.kept if place == identity]


class OneMemory:
    """The port `Memories`: the same store, however an agent remembers."""

    def __init__(self, store: MemoryStore) -> None:
        self.store = store
        self.settings: list[MemorySettings] = []

    def memory(self, settings: MemorySettings, *, model: str) -> MemoryStore:
        self.settings.append(settings)
        return self.store


class OfferedMemory(KeptMemory):
    """Offers a patch and hits as a test has them; an exception is raised where it stands."""

    def __init__(
        self,
        patch: LLMContextPatch | Exception | None = None,
        hits: Sequence[TurnHit] | Exception = (),
    ) -> None:
        super().__init__()
        self.patch = patch or LLMContextPatch()
        self.hits = hits
        self.asked: list[Identity] = []
        self.searched: list[tuple[str, int, str]] = []

    @override
    async def get_llm_context(self, identity: Identity) -> LLMContextPatch:
        self.asked.append(identity)
        if isinstance(self.patch, Exception):
            raise self.patch
        return self.patch

    @override
    async def search_turns(
        self, identity: Identity, query: str, *, top_k: int, scope: RecallScope
    ) -> SearchResult:
        self.searched.append((query, top_k, scope))
        if isinstance(self.hits, Exception):
            raise self.hits
        return SearchResult(self.hits, top_k or DEFAULT_TOP_K, unindexed=2)


def _is_in_scope(place: Identity, asker: Identity, scope: RecallScope) -> bool:
    if scope == "session":
        return place == asker
    return (place.tenant, place.user) == (asker.tenant, asker.user)


def _likeness(query: str, turn: ConversationTurn) -> float:
    """The share of the query's words that the turn has."""
    asked = re.findall(r"\w+", query.lower())
    held = re.findall(r"\w+", f"{turn.user_message} {turn.assistant_response}".lower())
    return sum(word in held for word in asked) / len(asked)
