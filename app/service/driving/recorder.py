"""The recorder of one turn: the only writer of a run while a worker drives it.

It is the turn's journal and the far end of its stream. Streamed text waits here, bounded, until it
is committed: the first piece at once, then after 20 ms growing to 100 ms, and 2 KiB at most to an
event. Facts take the text streamed before them along, in the same append, so the log has the order
in which things happened and a reader never sees what can be lost.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol

from app.log.calls import MessageAssistant, ToolStarted
from app.log.envelope import NewEvent
from app.log.payload import WorkerPayload
from app.log.runs import ReasoningDelta, StepCompleted, StepStarted, TextDelta
from app.runctx.shapes import NewArtifact
from app.service.driving.limits import TokensSpent
from app.turn import stream
from app.turn.limits import STREAM_BOUND
from app.turn.ports import StepRefused

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from app.log.payload import UsageTotals, WorkerRef
    from app.log.records import Lease
    from app.policy.taint import Trust
    from app.service.clock import Clock
    from app.service.driving.limits import RunLimits
    from app.service.ports.leases import Leases
    from app.turn.ports import Fact

EVENT_BYTES: Final = 2048
FIRST_WAIT_S: Final = 0.020
LONGEST_WAIT_S: Final = 0.100
WAIT_GROWTH: Final = 1.25


class TurnDrained(StepRefused):
    """The process is going down and the turn has reached a step boundary: another goes on."""


class Pace(Protocol):
    """What may hold a run's writer back: subscribers in lock-step (service.md 7)."""

    async def passable(self, run_id: str) -> None:
        """Returns when the run may append streamed text."""
        ...


@dataclass(slots=True)
class _Text:
    """Streamed text of one kind and one speaker, not yet in an event."""

    kind: type[TextDelta | ReasoningDelta]
    worker: WorkerRef | None
    parts: list[str] = field(default_factory=list)
    size: int = 0


class TurnRecorder:
    """Journal and stream of one turn; `pump` runs beside the turn in a task of its own."""

    def __init__(
        self,
        leases: Leases,
        lease: Lease,
        *,
        turn_id: str,
        limits: RunLimits,
        clock: Clock,
        pace: Pace,
    ) -> None:
        self._leases = leases
        self._lease = lease
        self._limits = limits
        self._turn_id = turn_id
        self._clock = clock
        self._pace = pace
        self._channel: deque[stream.TurnStreamEvent] = deque()
        self._texts: deque[_Text] = deque()
        self._latest: dict[WorkerRef | None, _Text] = {}
        self._gathered = 0
        # Turn and step of what each speaker says: the run's own agent, and its workers.
        self._places: dict[WorkerRef | None, tuple[str, int]] = {None: (turn_id, 0)}
        self._staged: list[NewEvent] = []
        self._staged_at: datetime | None = None
        self._writing = asyncio.Lock()
        self._stirred = asyncio.Event()
        self._roomy = asyncio.Event()
        self._wait_s = 0.0
        self._executed: set[str] = set()
        self._worked: list[UsageTotals] = []
        self._tools: dict[str, str] = {}
        self.draining = False

    @property
    def executed(self) -> frozenset[str]:
        """The calls whose execution started in this turn; a worker's calls are its own affair."""
        return frozenset(self._executed)

    @property
    def worked(self) -> Sequence[UsageTotals]:
        """What each reply of a worker cost in this turn."""
        return tuple(self._worked)

    # The turn's side: a stream that waits when it is full, and a journal.

    async def send(self, event: stream.TurnStreamEvent) -> None:
        """Take one piece of the stream; waits while 64 are on their way. Cancelling is safe."""
        while len(self._channel) >= STREAM_BOUND:
            self._roomy.clear()
            await self._roomy.wait()
        self._channel.append(event)
        self._stirred.set()

    async def record(self, *facts: Fact) -> None:
        """Commit facts after the text streamed before them.

        Raises LeaseLost; and, in place of beginning another step, TurnDrained or TokensSpent.
        """
        self._count(facts)
        stop = self.draining or self._limits.tokens_spent
        starts = (i for i, fact in enumerate(facts) if isinstance(fact.payload, StepStarted))
        start = next(starts, None) if stop else None
        await self._commit(facts[:start])
        if start is not None:
            raise TurnDrained if self.draining else TokensSpent
        if any(isinstance(fact.payload, StepStarted) for fact in facts):
            self._wait_s = 0.0

    def conclude(self, *facts: Fact) -> None:
        """Leave the turn's last facts, and the text before them, for the closing append."""
        self._count(facts)
        self._staged.extend(self._after_text(facts))

    def _count(self, facts: Sequence[Fact]) -> None:
        for fact in facts:
            if isinstance(fact.payload, StepCompleted):
                self._limits.spend(fact.payload.usage)
            elif isinstance(fact.payload, ToolStarted):
                self._tools[fact.payload.call_id] = fact.payload.tool
                if fact.payload.worker is None:
                    self._executed.add(fact.payload.call_id)
            elif isinstance(fact.payload, MessageAssistant) and fact.payload.worker is not None:
                self._worked.append(fact.payload.usage)

    async def _commit(self, facts: Sequence[Fact]) -> None:
        async with self._writing:
            await self._append(self._after_text(facts))

    def _after_text(self, facts: Sequence[Fact]) -> list[NewEvent]:
        """The text streamed so far and not committed yet, and the facts behind it."""
        self._absorb()
        texts = self._take_texts()
        for fact in facts:
            speaker = _speaker(fact)
            if speaker is None or fact.turn_id is not None:
                self._places[speaker] = (fact.turn_id or self._turn_id, fact.step)
        return [*texts, *(self._event(fact) for fact in facts)]

    async def keep_result(self, call_id: str, text: str, *, trust: Trust) -> str | None:
        """Keep a result that is too long for the model whole, in the conversation's artifacts.

        One that is too long even for these is not kept. Its id is in the log with the result, so it
        is kept for good before that.
        """
        content = text.encode()
        if len(content) > self._limits.file_bytes:
            return None
        new = NewArtifact(
            id=self._clock.mint("art"),
            namespace="results",
            content=content,
            mime="text/plain; charset=utf-8",
            trust=trust,
            at=self._clock.now(),
            by=self._lease.run.principal,
            tool=self._tools.get(call_id),
        )
        return (await self._leases.keep(self._lease, new)).id

    def message_id(self) -> str:
        """A new id for a message."""
        return self._clock.mint("msg")

    # The driver's side.

    def stage(self, *events: NewEvent, at: datetime) -> None:
        """Events of that time that go in front of the next append, whatever causes it."""
        self._staged.extend(events)
        self._staged_at = at

    async def remaining(self) -> list[NewEvent]:
        """What is staged or streamed and not committed yet, for the closing append."""
        async with self._writing:
            self._absorb()
            events = [*self._staged, *self._take_texts()]
            self._staged.clear()
            self._staged_at = None
            return events

    async def pump(self) -> None:
        """Commit streamed text when it is due, until cancelled. Raises LeaseLost.

        Each step begins anew: its first piece is shown at once.
        """
        while True:
            await self._stirred.wait()
            await self._gather(self._wait_s)
            await self._pace.passable(self._lease.run.id)
            async with self._writing:
                if texts := self._take_texts():
                    await self._append(texts)
                    self._wait_s = min(
                        max(FIRST_WAIT_S, self._wait_s * WAIT_GROWTH), LONGEST_WAIT_S
                    )

    async def _gather(self, seconds: float) -> None:
        """Let text come together: for so long, or until it fills an event."""
        async with asyncio.TaskGroup() as timing:
            timer = timing.create_task(self._clock.sleep(seconds))
            timer.add_done_callback(lambda _: self._stirred.set())
            while self._absorb(up_to=EVENT_BYTES) < EVENT_BYTES:
                self._stirred.clear()
                if timer.done():
                    break
                await self._stirred.wait()
            timer.cancel()

    def _absorb(self, *, up_to: int | None = None) -> int:
        """Move pieces from the channel into texts, all of them or up to so many bytes."""
        while self._channel and (up_to is None or self._gathered < up_to):
            match self._channel.popleft():
                case stream.TextDelta(text, worker):
                    self._add(TextDelta, text, worker)
                case stream.ReasoningDelta(text, worker):
                    self._add(ReasoningDelta, text, worker)
                case stream.ToolStarted():
                    # The start itself is a fact; the stream only repeats it.
                    pass
        self._roomy.set()
        return self._gathered

    def _add(
        self, kind: type[TextDelta | ReasoningDelta], text: str, worker: WorkerRef | None
    ) -> None:
        for piece in _pieces(text):
            size = len(piece.encode())
            last = self._latest.get(worker)
            if last is None or last.kind is not kind or last.size + size > EVENT_BYTES:
                # Workers that speak at the same time do not tear each other's text apart.
                last = self._latest[worker] = _Text(kind, worker)
                self._texts.append(last)
            last.parts.append(piece)
            last.size += size
            self._gathered += size

    def _take_texts(self) -> list[NewEvent]:
        events = [self._text_event(text) for text in self._texts]
        self._texts.clear()
        self._latest.clear()
        self._gathered = 0
        return events

    def _text_event(self, text: _Text) -> NewEvent:
        turn_id, step = self._places[text.worker]
        said = text.kind(text="".join(text.parts), worker=text.worker)
        return NewEvent(said, run_id=self._lease.run.id, turn_id=turn_id, step=step)

    def _event(self, fact: Fact) -> NewEvent:
        return NewEvent(
            fact.payload,
            run_id=self._lease.run.id,
            turn_id=fact.turn_id or self._turn_id,
            step=fact.step,
            trust=fact.trust,
            private=fact.private,
        )

    async def _append(self, events: Iterable[NewEvent]) -> None:
        batch = [*self._staged, *events]
        if not batch:
            return
        now = self._staged_at or self._clock.now()
        self._staged.clear()
        self._staged_at = None
        commit = asyncio.ensure_future(self._leases.append(self._lease, batch, now=now))
        try:
            await asyncio.shield(commit)
        except asyncio.CancelledError:
            # An append that was begun is let through: the closing append, which may follow, must
            # neither lose what is in it nor say it twice.
            await asyncio.wait([commit])
            if not commit.cancelled():
                commit.exception()
            raise


def _speaker(fact: Fact) -> WorkerRef | None:
    return fact.payload.worker if isinstance(fact.payload, WorkerPayload) else None


def _pieces(text: str) -> list[str]:
    """The text in pieces that fit an event; a character has at most four bytes."""
    if len(text) * 4 <= EVENT_BYTES or len(text.encode()) <= EVENT_BYTES:
        return [text]
    width = EVENT_BYTES // 4
    return [text[start : start + width] for start in range(0, len(text), width)]
