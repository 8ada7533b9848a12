"""The events with which a worker takes a run up (service.md 6: `run.started`, `run.resumed`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.log.envelope import NewEvent
from app.log.runs import RunResumed, RunStarted
from app.service.context.assembly import context_assembled
from app.service.context.attachments import attachment_events

if TYPE_CHECKING:
    from app.log.records import Lease
    from app.service.driving.loading import Loaded
    from app.service.replay.fold import Standing


def attempt_began(lease: Lease, *, worker: str) -> NewEvent:
    """An attempt that got nowhere, so that the log counts it."""
    return NewEvent(_began(lease, worker, None), run_id=lease.run.id)


def opening(lease: Lease, loaded: Loaded, *, turn_id: str, worker: str) -> list[NewEvent]:
    """The first events of a turn; those of a run's first turn say what its context is made of."""
    run, standing = lease.run, loaded.standing
    events = [NewEvent(_began(lease, worker, standing), run_id=run.id, turn_id=turn_id)]
    if (facts := loaded.context.facts) is not None:
        events += attachment_events(facts.inputs, run_id=run.id, turn_id=turn_id)
        history = len(standing.run.input_history())
        events.append(
            context_assembled(
                loaded.context, facts, run_id=run.id, turn_id=turn_id, history_messages=history
            )
        )
    return events


def _began(lease: Lease, worker: str, standing: Standing | None) -> RunStarted | RunResumed:
    attempt = lease.run.attempts + 1
    if lease.run.started_at is None:
        return RunStarted(attempt=attempt, worker=worker)
    if standing is None:
        return RunResumed(attempt=attempt, worker=worker)
    return RunResumed(
        attempt=attempt,
        worker=worker,
        approvals=tuple(standing.settled),
        questions=tuple(standing.questions.settled),
    )
