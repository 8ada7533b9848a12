"""Memory in Postgres: the port `MemoryStore` for the strategies without a summary.

All strategies are views of the same turns (run-context.md 5.2). `StoreMemory` is the store of one
way to remember, and is built for each run; `RecallOfTurns` is what adds the search by meaning.
"""

from __future__ import annotations

from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from app.errors import Misconfigured
from app.runctx.memory import (
    Health,
    LLMContextPatch,
    MemoryState,
    MemoryStateMismatch,
    SemanticDisabled,
    StoreClosed,
    TurnWritten,
)
from app.store.memory import state as memory_state
from app.store.memory import turns as memory_turns
from app.store.server.connections import storing
from app.store.server.row_security import OneTenant

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Sequence

    from app.ids import Identity
    from app.runctx.memory import ConversationTurn, MemorySettings, RecallScope, SearchResult
    from app.store.memory.state import FoldClaim
    from app.store.memory.turns import Scope
    from app.store.server.connections import Connection, Pool
    from app.store.server.row_security import Reader


class RecallOfTurns(Protocol):
    """The search by meaning over the turns that are stored here."""

    async def vector(self, identity: Identity, turn: ConversationTurn) -> Sequence[float] | None:
        """The turn's vector, None where there is nothing to embed. Raises EmbeddingFailed."""
        ...

    async def keep(
        self,
        connection: Connection,
        identity: Identity,
        turn: ConversationTurn,
        vector: Sequence[float],
    ) -> bool:
        """Store the vector of a turn in the transaction that stores the turn."""
        ...

    async def search(
        self, identity: Identity, query: str, *, top_k: int, scope: RecallScope
    ) -> SearchResult:
        """Turns by meaning, as the port says."""
        ...


class StoreMemory:
    """What sessions remember under the strategies `none` and `truncation`."""

    def __init__(
        self, pool: Pool, settings: MemorySettings, *, recall: RecallOfTurns | None = None
    ) -> None:
        if settings.is_semantic and recall is None:
            raise Misconfigured("memory by meaning needs an embedder")
        self._pool = pool
        self._settings = settings
        self._recall = recall if settings.is_semantic else None
        self._is_closed = False

    async def add_turn(self, identity: Identity, turn: ConversationTurn) -> TurnWritten:
        """Store a finished exchange: of a run once, and of one that ended otherwise never."""
        return await self._added(identity, turn, is_late=False)

    async def add_late_turn(self, identity: Identity, turn: ConversationTurn) -> TurnWritten:
        """Store one that should have been before; right behind what its summary stands for."""
        return await self._added(identity, turn, is_late=True)

    async def _added(
        self, identity: Identity, turn: ConversationTurn, *, is_late: bool
    ) -> TurnWritten:
        scope = self._scope(identity)
        if not self._keeps_turns:
            return TurnWritten(turn.turn_id, is_new=False, health=Health.HEALTHY)
        # Before any change: a turn whose vector cannot be had is not stored.
        vector = None if self._recall is None else await self._recall.vector(identity, turn)
        async with self._changing(scope) as connection:
            written = await memory_turns.known(connection, scope, turn.run)
            if written is not None:
                return TurnWritten(
                    written, is_new=False, health=await self._health(connection, scope)
                )
            if await memory_turns.is_fruitless(connection, scope, turn.run):
                health = await self._health(connection, scope)
                return TurnWritten(turn.turn_id, is_new=False, health=health)
            place = await _room_for(connection, scope, turn) if is_late else None
            newest, turn_id = await memory_turns.added(connection, scope, turn, place=place)
            if self._recall is not None and vector is not None:
                stored = replace(turn, turn_id=turn_id, session=identity.session)
                await self._recall.keep(connection, identity, stored, vector)
            health, claim = await self._spill(connection, scope, newest)
        if claim is not None:
            self._begin(claim)
        return TurnWritten(turn_id, is_new=True, health=health)

    async def get_llm_context(self, identity: Identity) -> LLMContextPatch:
        """The window of the strategy, and no summary."""
        scope = self._scope(identity)
        if self._settings.strategy == "none":
            return LLMContextPatch(strategy="none")
        with self._reading(scope) as connection:
            window = await self._window(connection, scope)
        tokens = sum(map(memory_turns.turn_tokens, window))
        return LLMContextPatch(strategy="truncation", recent_turns=window, tokens=tokens)

    async def search_turns(
        self, identity: Identity, query: str, *, top_k: int, scope: RecallScope
    ) -> SearchResult:
        """Turns by meaning, best first. Raises EmptyQuery, SemanticDisabled, EmbedderMismatch."""
        self._scope(identity)
        if self._recall is None:
            raise SemanticDisabled("this memory is not searched by meaning")
        return await self._recall.search(identity, query, top_k=top_k, scope=scope)

    async def estimate_tokens(self, identity: Identity) -> int:
        """About how many tokens the session's memory takes in a prompt."""
        return (await self.get_llm_context(identity)).tokens

    async def flush(self, identity: Identity) -> None:
        """Forget turns, vectors, summary and queue."""
        scope = self._scope(identity)
        async with self._changing(scope) as connection:
            await memory_turns.forget(connection, scope)

    async def health(self, identity: Identity) -> Health:
        """How the session's summaries are."""
        scope = self._scope(identity)
        with self._reading(scope) as connection:
            return await self._health(connection, scope)

    async def export_state(self, identity: Identity) -> MemoryState:
        """All of it but vectors; the turns are numbered from 1."""
        scope = self._scope(identity)
        async with self._changing(scope) as connection:
            return await self._exported(connection, scope)

    async def import_state(self, identity: Identity, state: MemoryState) -> None:
        """Put a session's memory back, in place of what is there. Raises MemoryStateMismatch."""
        scope = self._scope(identity)
        if state.strategy != self._settings.strategy:
            raise MemoryStateMismatch(
                f"the state is of {state.strategy!r}, this memory of {self._settings.strategy!r}"
            )
        async with self._changing(scope) as connection:
            await memory_turns.forget(connection, scope)
            ids = [turn.turn_id for turn in state.turns]
            taken = await memory_turns.taken(connection, scope, ids)
            for turn in state.turns:
                own = replace(turn, turn_id="") if turn.turn_id in taken else turn
                await memory_turns.added(connection, scope, own)
            await self._imported(connection, scope, state)

    async def aclose(self) -> None:
        """Nothing is read or written through this any more; connections are the pool's."""
        self._is_closed = True

    @property
    def _keeps_turns(self) -> bool:
        return self._settings.strategy != "none" or self._settings.is_semantic

    def _scope(self, identity: Identity) -> Scope:
        scope = memory_turns.scope_of(identity)
        if self._is_closed:
            raise StoreClosed("this memory was closed")
        return scope

    @contextmanager
    def _reading(self, scope: Scope) -> Iterator[OneTenant]:
        with storing():
            yield OneTenant(self._pool, scope[0])

    @asynccontextmanager
    async def _changing(self, scope: Scope) -> AsyncIterator[Connection]:
        async with OneTenant(self._pool, scope[0]).transaction() as connection:
            await memory_turns.hold(connection, scope)
            yield connection

    async def _window(self, connection: Reader, scope: Scope) -> list[ConversationTurn]:
        if self._settings.budget_tokens > 0:
            return await memory_turns.within(connection, scope, self._settings.budget_tokens)
        return [turn for _, turn in await memory_turns.newest(connection, scope)]

    async def _health(self, connection: Reader, scope: Scope) -> Health:
        """Without summaries there is nothing that could be ill."""
        del connection, scope
        return Health.HEALTHY

    async def _spill(
        self, connection: Connection, scope: Scope, newest: int
    ) -> tuple[Health, FoldClaim | None]:
        """What the strategy does about a new turn, in the transaction that stores it."""
        del newest
        return await self._health(connection, scope), None

    def _begin(self, claim: FoldClaim) -> None:
        """Go on with what was claimed, once it is committed."""

    async def _exported(self, connection: Connection, scope: Scope) -> MemoryState:
        turns = [turn for _, turn in await memory_turns.newest(connection, scope)]
        return MemoryState(strategy=self._settings.strategy, turns=turns)

    async def _imported(self, connection: Connection, scope: Scope, state: MemoryState) -> None:
        """Put back what the strategy keeps beside the turns."""


async def _room_for(connection: Connection, scope: Scope, turn: ConversationTurn) -> int | None:
    """The number of a turn's place in time; None behind all others."""
    place = await memory_turns.first_later(connection, scope, turn.at)
    if place is None:
        return None
    stored = await memory_state.locked(connection, scope)
    if stored is not None:
        place = max(place, stored.settled_through + 1)
        await memory_state.save(connection, scope, stored.rolling.with_room_at(place))
    await memory_turns.make_room(connection, scope, place)
    return place
