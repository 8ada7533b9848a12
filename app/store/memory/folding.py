"""Turns fold into summaries, beside the runs: no run waits for a summariser (run-context.md 5.2).

A claim says who folds. The summariser is asked outside of any transaction, and what it says is
written only while the claim still holds; so a process may die anywhere: its claim runs out, and
some worker takes the range. Everything needed to go on is in Postgres.
"""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import structlog

from app.errors import StoreUnavailable
from app.policy.taint import Trust
from app.runctx.condense import SUMMARY_BYTES, cut
from app.runctx.memory import Health
from app.runctx.text import without_surrogates
from app.store.memory import state as memory_state
from app.store.memory import turns as memory_turns
from app.store.memory.state import CLAIM_S
from app.store.server.connections import storing
from app.store.server.row_security import OneTenant

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from app.runctx.memory import ConversationTurn
    from app.runctx.ports import Summarizer
    from app.store.memory.state import FoldClaim
    from app.store.memory.turns import Scope
    from app.store.server.connections import Pool
    from app.store.server.row_security import EveryTenant

RANGES_AT_ONCE: Final = 8
SESSIONS_A_TICK: Final = 10_000
SESSIONS_AT_ONCE: Final = 16

log = structlog.get_logger("turngate.memory")


@dataclass(frozen=True, slots=True)
class FoldTimes:
    """Seconds: how long a claim holds, a summariser may take, and between two looks."""

    claim_s: float = CLAIM_S
    call_s: float = 20.0
    tick_s: float = 10.0


_TIMES: Final = FoldTimes()


class Folding:
    """Owns the tasks that summarise; `summarizer_of` a model says who does it."""

    def __init__(
        self,
        pool: Pool,
        everyone: EveryTenant,
        summarizer_of: Callable[[str], Summarizer],
        times: FoldTimes = _TIMES,
    ) -> None:
        self._pool = pool
        self._everyone = everyone
        self._summarizer_of = summarizer_of
        self._times = times
        self._places = asyncio.Semaphore(SESSIONS_AT_ONCE)
        self._tasks: asyncio.TaskGroup | None = None

    async def run(self) -> None:
        """Fold what is begun, and look at what waits at every tick; until cancelled.

        A fold that takes long holds up its own session alone, not the next tick. What is cut off at
        the end stays claimed, and is somebody else's when the claim has run out.
        """
        async with asyncio.TaskGroup() as tasks:
            self._tasks = tasks
            try:
                while True:
                    await asyncio.sleep(self._times.tick_s)
                    await self._look(tasks)
            finally:
                self._tasks = None

    @property
    def claim_s(self) -> float:
        """How long a claim holds."""
        return self._times.claim_s

    def begin(self, claim: FoldClaim) -> None:
        """Fold in a task; where none runs here any more, the claim runs out."""
        if self._tasks is not None:
            self._tasks.create_task(self.fold(claim))

    async def look(self) -> None:
        """Take the oldest range of each session that waits, and fold it."""
        async with asyncio.TaskGroup() as tasks:
            await self._look(tasks)

    async def fold(self, claim: FoldClaim) -> None:
        """Fold the claimed range and, while that goes well, those after it."""
        try:
            next_one: FoldClaim | None = claim
            for left in reversed(range(RANGES_AT_ONCE)):
                if next_one is not None:
                    next_one = await self._fold_one(next_one, goes_on=left > 0)
        except Exception as error:  # noqa: BLE001 - the root of a task: its claim runs out
            log.warning("memory.fold_failed", kind=type(error).__name__)

    async def _look(self, tasks: asyncio.TaskGroup) -> None:
        """Look at each session that waits, so many at once, until the last has its task."""
        waiting: Sequence[Scope] = ()
        with _left_to_the_next_tick():
            async with self._everyone.borrowed() as connection:
                waiting = await memory_state.waiting(
                    connection, claim_s=self.claim_s, most=SESSIONS_A_TICK
                )
        for scope in waiting:
            await self._places.acquire()
            # A task that is cancelled before it begins has no block that would let go.
            tasks.create_task(self._look_at(scope)).add_done_callback(self._left)

    def _left(self, _look: asyncio.Task[None]) -> None:
        self._places.release()

    async def _look_at(self, scope: Scope) -> None:
        claim = None
        with _left_to_the_next_tick():
            claim = await self._taken(scope)
        if claim is not None:
            await self.fold(claim)

    async def _taken(self, scope: Scope) -> FoldClaim | None:
        async with OneTenant(self._pool, scope[0]).transaction() as connection:
            found = await memory_state.locked(connection, scope, claim_s=self.claim_s)
            if found is None or found.is_claimed or not found.rolling.pending:
                return None
            looked = found.rolling.looked_at()
            await memory_state.save(connection, scope, looked)
            claim = await memory_state.claimed(connection, scope, looked, found.model)
        memory_state.notice(scope, found.rolling, looked)
        return claim

    async def _fold_one(self, claim: FoldClaim, *, goes_on: bool) -> FoldClaim | None:
        """Fold a range; the claim on the next one, if this process is to go on."""
        oldest, prior = claim.rolling.pending[0], claim.rolling
        rows = OneTenant(self._pool, claim.scope[0])
        with storing():
            turns = await memory_turns.between(rows, claim.scope, oldest.first, oldest.last)
        # What retention took before it was folded leaves the summary as it is.
        summary = await self._summary(claim, turns) if turns else prior.summary
        trust = max((turn.trust for turn in turns), default=Trust.UNSPECIFIED)
        following = None
        async with rows.transaction() as connection:
            found = await memory_state.locked(connection, claim.scope)
            if found is None or found.claim != claim.token:
                return None
            went_well = bool(summary.strip()) or not turns
            before = found.rolling
            after = before.folded(summary, trust) if went_well else before.failed()
            await memory_state.save(connection, claim.scope, after)
            await memory_state.release(connection, claim.scope)
            is_repaired = before.health is Health.RECOVERING
            if goes_on and went_well and after.folds_at_once and not is_repaired:
                following = await memory_state.claimed(connection, claim.scope, after, found.model)
        memory_state.notice(claim.scope, before, after)
        return following

    async def _summary(self, claim: FoldClaim, turns: Sequence[ConversationTurn]) -> str:
        """What the summariser says; nothing where it fails, which is a failure as blank text is."""
        identity, items = claim.identity, [text for turn in turns for text in _texts(turn)]
        try:
            async with asyncio.timeout(self._times.call_s):
                summarizer = self._summarizer_of(claim.model)
                said = await summarizer.summarize(claim.rolling.summary, items, identity=identity)
        except Exception as error:  # noqa: BLE001 - whatever fails there counts, and costs no run
            # The text of an exception may quote a turn, so only its kind is logged.
            log.warning("memory.summary_failed", kind=type(error).__name__)
            return ""
        # Every later prompt holds it, so a summariser that cannot stop does not say how long it is.
        return cut(without_surrogates(said), SUMMARY_BYTES)


@contextmanager
def _left_to_the_next_tick() -> Iterator[None]:
    """A look that fails ends no other: neither those at other sessions, nor those to come."""
    try:
        yield
    except StoreUnavailable:
        pass
    except Exception as error:  # noqa: BLE001 - the root of a task: whatever it is, others go on
        log.warning("memory.look_failed", kind=type(error).__name__)


def _texts(turn: ConversationTurn) -> Iterator[str]:
    yield f"user: {turn.user_message}"
    yield f"assistant: {turn.assistant_response}"
