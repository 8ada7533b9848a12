"""Memory in Postgres under `rolling_summary`: newest turns, and a summary of those before them."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import structlog
from typing_extensions import override

from app.runctx.memory import Health, LLMContextPatch, MemorySettings, MemoryState
from app.runctx.rolling import Rolling
from app.store.memory import state as memory_state
from app.store.memory import turns as memory_turns
from app.store.memory.plain import StoreMemory
from app.store.server.row_security import SNAPSHOT, OneTenant
from app.store.texts import unescape

if TYPE_CHECKING:
    from app.ids import Identity
    from app.store.memory.folding import Folding
    from app.store.memory.plain import RecallOfTurns
    from app.store.memory.state import FoldClaim
    from app.store.memory.turns import Scope
    from app.store.server.connections import Connection, Pool
    from app.store.server.row_security import Reader

WAIT_S: Final = 5.0
_LOOK_S: Final = 0.05

log = structlog.get_logger("turngate.memory")


class RollingMemory(StoreMemory):
    """The newest turns, and what `folding` made of those before; `model` is the agent's own."""

    def __init__(
        self,
        pool: Pool,
        settings: MemorySettings,
        *,
        folding: Folding,
        model: str,
        recall: RecallOfTurns | None = None,
        wait_s: float = WAIT_S,
    ) -> None:
        super().__init__(pool, settings, recall=recall)
        self._folding = folding
        self._model = model
        self._wait_s = wait_s

    @override
    async def get_llm_context(self, identity: Identity) -> LLMContextPatch:
        """Window and summary; a fold that is under way is waited for, though not for ever."""
        scope = self._scope(identity)
        await self._settled(scope)
        async with OneTenant(self._pool, scope[0]).transaction(SNAPSHOT) as connection:
            stored = await memory_state.read(connection, scope)
            newest = await memory_turns.newest(connection, scope, most=self._settings.recent_turns)
            rolling = Rolling() if stored is None else stored.rolling
            unfolded = await memory_turns.count_between(
                connection, scope, rolling.shown_through, newest[0][0] if newest else None
            )
        window = [turn for _, turn in newest]
        summary = rolling.shown_summary
        return LLMContextPatch(
            strategy="rolling_summary",
            summary=summary,
            summary_trust=rolling.summary_trust,
            recent_turns=window,
            tokens=memory_turns.estimate(summary) + sum(map(memory_turns.turn_tokens, window)),
            unfolded_turns=unfolded,
        )

    async def _settled(self, scope: Scope) -> None:
        loop = asyncio.get_running_loop()
        until = loop.time() + self._wait_s
        while True:
            with self._reading(scope) as connection:
                stored = await memory_state.read(connection, scope, claim_s=self._folding.claim_s)
            if stored is None or not stored.is_claimed or loop.time() >= until:
                return
            await asyncio.sleep(_LOOK_S)

    @override
    async def _health(self, connection: Reader, scope: Scope) -> Health:
        stored = await memory_state.read(connection, scope)
        return Health.HEALTHY if stored is None else stored.rolling.health

    @override
    async def _spill(
        self, connection: Connection, scope: Scope, newest: int
    ) -> tuple[Health, FoldClaim | None]:
        """Queue what leaves the window, and claim the oldest range if nobody folds."""
        await memory_state.make(connection, scope, self._model)
        stored = await memory_state.locked(connection, scope, claim_s=self._folding.claim_s)
        assert stored is not None  # noqa: S101 - it was made just now, in this transaction
        before = stored.rolling
        after = before.spilled(
            newest,
            recent_turns=self._settings.recent_turns,
            backlog_max=self._settings.recovery_backlog_max,
        )
        await memory_state.save(connection, scope, after)
        was_dropped = after.folded_through != before.folded_through
        if was_dropped:
            # Whoever folds what was dropped just now must not write it any more.
            await memory_state.release(connection, scope)
            log.warning("memory.recovery_dropped", conversation=unescape(scope[2]))
        if after.folds_at_once and (was_dropped or not stored.is_claimed):
            claim = await memory_state.claimed(connection, scope, after, self._model)
            return after.health, claim
        return after.health, None

    @override
    def _begin(self, claim: FoldClaim) -> None:
        self._folding.begin(claim)

    @override
    async def _exported(self, connection: Connection, scope: Scope) -> MemoryState:
        turns = await memory_turns.newest(connection, scope)
        stored = await memory_state.locked(connection, scope)
        rolling = Rolling() if stored is None else stored.rolling
        # Numbers begin at 1 where a state is put back; what retention took is folded or lost.
        gone = turns[0][0] - 1 if turns else rolling.folded_through
        return MemoryState(
            strategy="rolling_summary",
            turns=[turn for _, turn in turns],
            summary=rolling.summary,
            summary_trust=rolling.summary_trust,
            folded_through=max(0, rolling.folded_through - gone),
            health=rolling.health,
            failures=rolling.failures,
            pending=[
                replace(one, first=max(1, one.first - gone), last=one.last - gone)
                for one in rolling.pending
                if one.last > gone
            ],
        )

    @override
    async def _imported(self, connection: Connection, scope: Scope, state: MemoryState) -> None:
        await memory_state.make(connection, scope, self._model)
        rolling = Rolling(
            summary=state.summary,
            summary_trust=state.summary_trust,
            folded_through=state.folded_through,
            health=state.health,
            failures=state.failures,
            pending=tuple(state.pending),
        )
        await memory_state.save(connection, scope, rolling)
