"""Where a run and the workers behind its open delegations stand, from the run's events.

The log is the truth and a checkpoint a short cut: without one, or with one that does not load, the
same AgentRun is rebuilt from the events. A worker has its own AgentRun, in the same log: its events
say whose they are, and are folded like those of a run.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from app.engine.agent_run import AgentRun
from app.engine.errors import InvalidRunDocument, UnsupportedRunFormat
from app.log.catalogue import PAYLOADS
from app.log.payload import delegation_of
from app.log.queries import LogScope
from app.service.replay.fold import RunFold, WorkerStanding
from app.service.replay.history import HISTORY_EVENTS, fold_history, user_message
from app.turn.execution.worker import Assignment

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from app.engine.messages import Message
    from app.log.envelope import Event
    from app.log.records import RunRecord
    from app.service.ports.database import Session
    from app.service.replay.fold import Standing
    from app.service.replay.history import Cut
    from app.turn.options import ApprovalDecision

RUN_EVENTS: Final = (
    "run.created",
    "message.user",
    "run.started",
    "run.resumed",
    "context.assembled",
    "run.paused",
    "run.checkpointed",
    "step.started",
    "step.discarded",
    "message.assistant",
    "history.compacted",
    "approval.requested",
    "approval.resolved",
    "question.asked",
    "question.answered",
    "dispatch.mutated",
    "retrieval.missed",
    "tool.started",
    "tool.completed",
    "tool.failed",
    "tool.settled",
    "delegate.started",
    "delegate.completed",
)
# What is known and says nothing of where a run stands. Everything else is read, so that a fact of a
# later release is seen and not passed over.
UNREAD_EVENTS: Final = tuple(sorted(PAYLOADS.keys() - set(RUN_EVENTS)))
# A turn that pauses, or completes a step, has got somewhere; one that only began has not.
PROGRESS_EVENTS: Final = ("run.started", "run.resumed", "run.paused", "step.completed")
# What happens to a run as a whole, and so to its workers.
_SHARED: Final = frozenset({"run.paused", "approval.resolved"})
_AFTER_CONVERSATION_CREATED: Final = 2
# How often in a row an answer that does not match its schema is asked for again.
OUTPUT_RETRIES: Final = 1


@dataclass(frozen=True, slots=True)
class EarlierRuns:
    """What is replayed of the conversation's earlier runs: all, or what came `after` a summary."""

    after: Cut | None = None


async def standing(
    session: Session,
    run: RunRecord,
    events: Sequence[Event],
    *,
    decided: Mapping[str, ApprovalDecision],
    output_schema: Mapping[str, object] | None = None,
    earlier: EarlierRuns | None = EarlierRuns(),
) -> Standing:
    """Fold the run from its RUN_EVENTS. `decided` are its verified decisions by approval id.

    The messages of `earlier` runs come before its own.
    """
    checkpoint, at = _checkpoint(events, None)
    if checkpoint is None:
        history = await _history(session, run, earlier)
        said = next(event for event in events if event.type == "message.user")
        checkpoint = AgentRun.new(user_message(said.data)).with_history(history)
        if output_schema is not None:
            checkpoint.with_output_validation(output_schema, OUTPUT_RETRIES)
    fold = RunFold(checkpoint, at, decided)
    workers = _WorkerFolds(events, decided)
    for event in events:
        if (delegation := delegation_of(event.data)) is None:
            fold.take(event)
            workers.note(event)
        else:
            fold.standing.active.until = event.at
            workers.take(delegation, event)
    fold.standing.active.ended()
    fold.standing.workers = workers.open
    fold.standing.worker_replies = workers.replies
    return fold.standing


def opens_conversation(run: RunRecord) -> bool:
    """Whether the conversation had nothing in it before the run but its own beginning."""
    return run.created_seq == _AFTER_CONVERSATION_CREATED


async def _history(session: Session, run: RunRecord, earlier: EarlierRuns | None) -> list[Message]:
    if earlier is None or opens_conversation(run):
        return []
    events = await session.events_of(LogScope(run.conversation_id), HISTORY_EVENTS)
    folded = fold_history(events, before_run=run.id, after=earlier.after)
    return [one.message for one in folded]


async def stalled_turns(session: Session, run: RunRecord) -> int:
    """How many turns in a row have begun and got nowhere; also of a run that does not fold."""
    scope = LogScope(run.conversation_id, run.id)
    stalled = 0
    for event in await session.events_of(scope, PROGRESS_EVENTS):
        stalled = stalled + 1 if event.type in {"run.started", "run.resumed"} else 0
    return stalled


def _checkpoint(events: Sequence[Event], delegation: str | None) -> tuple[AgentRun | None, int]:
    """The newest document of the run, or of a worker, and its seq, if it loads."""
    for event in reversed(events):
        if (
            event.type == "run.checkpointed"
            and event.private is not None
            and delegation_of(event.data) == delegation
        ):
            try:
                return AgentRun.load(event.private), event.seq
            except (UnsupportedRunFormat, InvalidRunDocument):
                return None, 0
    return None, 0


class _WorkerFolds:
    """The folds of a run's workers, by the call ids of their delegations."""

    def __init__(self, events: Sequence[Event], decided: Mapping[str, ApprovalDecision]) -> None:
        self._events = events
        self._decided = decided
        self._folds: dict[str, RunFold] = {}
        self.open: dict[str, WorkerStanding] = {}
        self.replies: list[Mapping[str, int]] = []

    def note(self, event: Event) -> None:
        """An event of the run itself: a worker begins or ends, or all of them are concerned."""
        if event.type == "delegate.started" and event.private is not None:
            self._begin(event.data["call_id"], event, Assignment.decode(event.private))
        elif event.type == "delegate.completed":
            self._folds.pop(event.data["call_id"], None)
            self.open.pop(event.data["call_id"], None)
        elif event.type in _SHARED:
            for fold in self._folds.values():
                fold.take(event)

    def take(self, delegation: str, event: Event) -> None:
        """An event of a worker."""
        if event.type == "message.assistant":
            self.replies.append(event.data["usage"])
        fold = self._folds.get(delegation)
        if fold is not None:
            fold.take(event)
            worker = self.open[delegation]
            worker.is_tainted = worker.is_tainted or event.trust.taints

    def _begin(self, call_id: str, event: Event, given: Assignment) -> None:
        run, at = _checkpoint(self._events, call_id)
        if run is None:
            run = AgentRun.new(given.prompt)
        fold = RunFold(run, at, self._decided)
        fold.standing.user_text = given.prompt
        fold.standing.under = call_id
        self._folds[call_id] = fold
        self.open[call_id] = WorkerStanding(fold.standing, event.trust.taints, given.shared_paths)
