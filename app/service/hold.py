"""Holding: subscribers that let a run go on only as fast as they acknowledge it (service.md 7).

A hold counts the events that its run has committed since it began and that its subscriber has not
acknowledged. While any hold counts more than its window, the run's writer waits here, its channel
fills, and the model is no longer read. Whoever acknowledges nothing for 30 s holds no longer.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from app.log.envelope import Event
    from app.log.queries import LogScope
    from app.service.caller import Caller
    from app.service.clock import Clock
    from app.service.ports import Signals
    from app.service.subscriptions import HoldEnd

PATIENCE_S: Final = 30.0
COOLDOWN_S: Final = 300.0


@dataclass(frozen=True, slots=True)
class HoldRequest:
    """Who wants to hold what; `takes_part` as principal or participant of the conversation."""

    caller: Caller
    scope: LogScope
    takes_part: bool
    window: int

    @property
    def is_allowed(self) -> bool:
        """Reading is not enough: a hold changes the pace of what others see."""
        scopes = self.caller.scopes
        return self.takes_part and ("runs:write" in scopes or self.caller.is_admin)

    @property
    def holder(self) -> tuple[str, str]:
        """The tenant and the principal."""
        return self.caller.tenant, self.caller.principal


@dataclass(slots=True, eq=False)
class Hold:
    """One subscriber's hold. `since` is when it last acknowledged, or went over its window."""

    request: HoldRequest
    demoted: Callable[[HoldEnd], None]
    since: float
    unacknowledged: deque[int] = field(default_factory=deque)

    @property
    def is_full(self) -> bool:
        """Whether the run has to wait."""
        return len(self.unacknowledged) > self.request.window

    def count(self, events: Sequence[Event], now: float) -> None:
        """Count what the run has committed."""
        run_id = self.request.scope.run_id
        was_full = self.is_full
        self.unacknowledged.extend(
            event.seq
            for event in events
            if event.run_id is not None and run_id in (None, event.run_id)
        )
        if self.is_full and not was_full:
            self.since = now

    def acknowledge(self, seq: int, now: float) -> None:
        """Take everything up to `seq` from the count."""
        while self.unacknowledged and self.unacknowledged[0] <= seq:
            self.unacknowledged.popleft()
        self.since = now


class HoldGate:
    """The holds of this process, and the gate at which the writers of held runs wait."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._holds: defaultdict[str, set[Hold]] = defaultdict(set)
        self._conversations: dict[str, str] = {}
        self._cooling: dict[tuple[tuple[str, str], str], float] = {}
        self._stirred = asyncio.Event()

    def listen(self, signals: Signals) -> None:
        """Count commits from now on."""
        signals.on_commit(self._committed)

    @contextmanager
    def holding(
        self, request: HoldRequest, demoted: Callable[[HoldEnd], None]
    ) -> Iterator[Callable[[int], None]]:
        """Hold for the length of the block, or until `demoted` is called; gives the way to ack."""
        hold = Hold(request, demoted, self._clock.monotonic())
        if not request.is_allowed:
            demoted("forbidden")
        elif self._is_cooling(request):
            demoted("cooldown")
        else:
            self._begin(hold)

        def acknowledge(seq: int) -> None:
            hold.acknowledge(seq, self._clock.monotonic())
            self._stirred.set()

        try:
            yield acknowledge
        finally:
            self._end(hold)

    async def passable(self, run_id: str) -> None:
        """Returns when no subscriber holds the run back. Cancelling is safe."""
        while full := self._full(run_id):
            first = min(full, key=lambda hold: hold.since)
            left = first.since + PATIENCE_S - self._clock.monotonic()
            if left <= 0:
                self._demote(first, run_id)
                continue
            self._stirred.clear()
            try:
                async with asyncio.timeout(left):
                    await self._stirred.wait()
            except TimeoutError:
                continue

    def _full(self, run_id: str) -> list[Hold]:
        conversation_id = self._conversations.get(run_id)
        if conversation_id is None:
            return []
        return [
            hold
            for hold in self._holds[conversation_id]
            if hold.is_full and hold.request.scope.run_id in (None, run_id)
        ]

    def _begin(self, hold: Hold) -> None:
        scope = hold.request.scope
        self._holds[scope.conversation_id].add(hold)
        if scope.run_id is not None:
            self._conversations[scope.run_id] = scope.conversation_id

    def _end(self, hold: Hold) -> None:
        conversation_id = hold.request.scope.conversation_id
        holds = self._holds.get(conversation_id, set())
        holds.discard(hold)
        if not holds:
            self._holds.pop(conversation_id, None)
            for run_id in [run for run, at in self._conversations.items() if at == conversation_id]:
                del self._conversations[run_id]
        self._stirred.set()

    def _demote(self, hold: Hold, run_id: str) -> None:
        self._end(hold)
        now = self._clock.monotonic()
        self._cooling = {key: until for key, until in self._cooling.items() if until > now}
        scope = hold.request.scope
        for subject in {run_id, scope.run_id or scope.conversation_id}:
            self._cooling[hold.request.holder, subject] = now + COOLDOWN_S
        hold.demoted("timeout")

    def _is_cooling(self, request: HoldRequest) -> bool:
        scope = request.scope
        until = self._cooling.get((request.holder, scope.run_id or scope.conversation_id))
        return until is not None and self._clock.monotonic() < until

    def _committed(self, conversation_id: str, events: Sequence[Event]) -> None:
        if not (holds := self._holds.get(conversation_id)):
            return
        for event in events:
            if event.run_id is not None:
                self._conversations[event.run_id] = conversation_id
        for hold in holds:
            hold.count(events, self._clock.monotonic())
