"""Holding: subscribers that let a run go on only as fast as they acknowledge it (service.md 7).

A hold counts the events that its run has committed since it began and that its subscriber has not
acknowledged. While any hold counts more than its window, the run's writer waits here, its channel
fills, and the model is no longer read. Whoever acknowledges nothing for 30 s holds no longer, and
may not hold that run again for five minutes.

Subscriber and writer may be in different processes. Each process writes its own holds down and
mirrors everybody else's, so at every gate there is a hold for each subscriber, own or mirrored;
`hold_sharing` carries the rows to and fro. Nothing here waits for a database.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from app.log.holds import HoldChanges, HoldRow

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from app.log.envelope import Event
    from app.log.queries import LogScope
    from app.service.caller import Caller
    from app.service.clock import Clock
    from app.service.ports.signals import Signals
    from app.service.streams.subscriptions import HoldEnd

PATIENCE_S: Final = 30.0
COOLDOWN_S: Final = 300.0
# Written down again so often, to show that the process of the subscriber is alive.
RENEW_S: Final = 2.0


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


@dataclass(slots=True, eq=False)
class Hold:
    """One subscriber's hold. `since` is when it last acknowledged, or went over its window.

    `tell` reaches the subscriber; a hold that mirrors another process's has none.
    """

    tenant: str
    subject: str
    holder: str
    principal: str
    window: int
    since: float
    tell: Callable[[HoldEnd], None] | None
    acknowledged: int = 0
    written_at: float | None = None
    unacknowledged: deque[int] = field(default_factory=deque)

    @property
    def is_full(self) -> bool:
        """Whether the run has to wait."""
        return len(self.unacknowledged) > self.window

    @property
    def person(self) -> tuple[str, str]:
        """The tenant and the principal."""
        return self.tenant, self.principal

    def count(self, seqs: Iterable[int], now: float) -> None:
        """Count what was committed."""
        was_full = self.is_full
        self.unacknowledged.extend(seqs)
        if self.is_full and not was_full:
            self.since = now

    def acknowledge(self, seq: int, now: float) -> None:
        """Take everything up to `seq` from the count."""
        if seq <= self.acknowledged:
            return
        self.acknowledged, self.since, self.written_at = seq, now, None
        while self.unacknowledged and self.unacknowledged[0] <= seq:
            self.unacknowledged.popleft()

    def row(self, subject: str, demoted_s: float | None = None) -> HoldRow:
        """What other processes are told."""
        return HoldRow(
            self.tenant,
            subject,
            self.holder,
            self.principal,
            self.window,
            self.acknowledged,
            demoted_s,
        )


class HoldGate:
    """The holds that this process knows, and the gate at which its writers wait for them."""

    def __init__(self, clock: Clock) -> None:
        self.changed = asyncio.Event()
        self._clock = clock
        self._holds: dict[str, Hold] = {}
        self._by_subject: defaultdict[str, set[Hold]] = defaultdict(set)
        self._conversations: dict[str, str] = {}
        self._cooling: dict[tuple[tuple[str, str], str], float] = {}
        self._demoted: list[HoldRow] = []
        self._gone: list[str] = []
        self._eased = asyncio.Event()

    def listen(self, signals: Signals) -> None:
        """Count commits from now on."""
        signals.on_commit(self._committed)

    @contextmanager
    def holding(
        self, request: HoldRequest, tell: Callable[[HoldEnd], None]
    ) -> Iterator[Callable[[int], None]]:
        """Hold for the length of the block, or until `tell` is called; gives the way to ack."""
        now = self._clock.monotonic()
        scope, caller = request.scope, request.caller
        hold = Hold(
            tenant=caller.tenant,
            subject=scope.run_id or scope.conversation_id,
            holder=self._clock.mint("hold"),
            principal=caller.principal,
            window=request.window,
            since=now,
            tell=tell,
        )
        if not request.is_allowed:
            tell("forbidden")
        elif self._is_cooling(hold.person, hold.subject):
            tell("cooldown")
        else:
            self._begin(hold)

        def acknowledge(seq: int) -> None:
            hold.acknowledge(seq, self._clock.monotonic())
            self._eased.set()
            self.changed.set()

        try:
            yield acknowledge
        finally:
            if hold.holder in self._holds:
                self._end(hold)
                self._gone.append(hold.holder)
                self.changed.set()

    async def passable(self, run_id: str) -> None:
        """Returns when no subscriber holds the run back. Cancelling is safe."""
        while full := self._full(run_id):
            first = min(full, key=lambda hold: hold.since)
            left = first.since + PATIENCE_S - self._clock.monotonic()
            if left <= 0:
                self._demote(first, run_id)
                continue
            self._eased.clear()
            try:
                async with asyncio.timeout(left):
                    await self._eased.wait()
            except TimeoutError:
                continue

    @property
    def waits_for_others(self) -> bool:
        """Whether a subscriber of another process is over its window."""
        return any(hold.tell is None and hold.is_full for hold in self._holds.values())

    def take_changes(self) -> HoldChanges:
        """What is to be written down now; whoever fails to gives it back."""
        now = self._clock.monotonic()
        rows, self._demoted = self._demoted, []
        gone, self._gone = self._gone, []
        for hold in self._holds.values():
            is_due = hold.written_at is None or now - hold.written_at >= RENEW_S
            if hold.tell is not None and is_due:
                rows.append(hold.row(hold.subject))
                hold.written_at = now
        return HoldChanges(tuple(rows), tuple(gone))

    def give_back(self, changes: HoldChanges) -> None:
        """These changes were not written; holds that go on are due again by themselves."""
        self._demoted += [row for row in changes.rows if row.demoted_s is not None]
        self._gone += changes.gone

    def heard(self, rows: Sequence[HoldRow]) -> None:
        """Take what is written down of everybody, this process included."""
        now = self._clock.monotonic()
        for row in rows:
            if row.demoted_s is not None:
                self._cool((row.tenant, row.principal), row.subject, COOLDOWN_S - row.demoted_s)
                self._take_demotion(row)
            elif (hold := self._holds.get(row.holder)) is None:
                self._mirror(row, now)
            elif hold.tell is None:
                hold.acknowledge(row.acknowledged, now)
        alive = {row.holder for row in rows if row.demoted_s is None}
        for hold in list(self._holds.values()):
            if hold.tell is None and hold.holder not in alive:
                self._end(hold)
        self._eased.set()

    def _mirror(self, row: HoldRow, now: float) -> None:
        # One of our own that has ended may still have to leave the table.
        if row.holder in self._gone or any(row.holder == ours.holder for ours in self._demoted):
            return
        self._begin(
            Hold(
                tenant=row.tenant,
                subject=row.subject,
                holder=row.holder,
                principal=row.principal,
                window=row.window,
                since=now,
                tell=None,
                acknowledged=row.acknowledged,
            )
        )

    def _take_demotion(self, row: HoldRow) -> None:
        hold = self._holds.get(row.holder)
        if hold is not None and hold.subject == row.subject:
            self._end(hold)
            if hold.tell is not None:
                hold.tell("timeout")

    def _full(self, run_id: str) -> list[Hold]:
        if not self._holds:
            return []
        subjects = (run_id, self._conversations.get(run_id))
        return [
            hold
            for subject in subjects
            if subject is not None
            for hold in self._by_subject.get(subject, ())
            if hold.is_full
        ]

    def _begin(self, hold: Hold) -> None:
        self._holds[hold.holder] = hold
        self._by_subject[hold.subject].add(hold)
        self.changed.set()

    def _end(self, hold: Hold) -> None:
        del self._holds[hold.holder]
        self._by_subject[hold.subject].discard(hold)
        if not self._by_subject[hold.subject]:
            del self._by_subject[hold.subject]
        if not self._holds:
            self._conversations.clear()
        self._eased.set()

    def _demote(self, hold: Hold, run_id: str) -> None:
        subjects = {hold.subject, run_id, self._conversations.get(run_id, run_id)}
        self._end(hold)
        for subject in subjects:
            self._cool(hold.person, subject, COOLDOWN_S)
            self._demoted.append(hold.row(subject, demoted_s=0.0))
        self.changed.set()
        if hold.tell is not None:
            hold.tell("timeout")

    def _cool(self, person: tuple[str, str], subject: str, seconds: float) -> None:
        now = self._clock.monotonic()
        self._cooling = {key: until for key, until in self._cooling.items() if until > now}
        self._cooling[person, subject] = now + seconds

    def _is_cooling(self, person: tuple[str, str], subject: str) -> bool:
        until = self._cooling.get((person, subject))
        return until is not None and self._clock.monotonic() < until

    def _committed(self, conversation_id: str, events: Sequence[Event]) -> None:
        if not self._holds:
            return
        now = self._clock.monotonic()
        of_runs: defaultdict[str, list[int]] = defaultdict(list)
        for event in events:
            if event.run_id is not None:
                of_runs[event.run_id].append(event.seq)
        for run_id, seqs in of_runs.items():
            for subject in (run_id, conversation_id):
                for hold in self._by_subject.get(subject, ()):
                    hold.count(seqs, now)
                    self._conversations[run_id] = conversation_id
