"""Settling what a run leaves open when it ends by force: cancelled, timed out, out of means.

Every emitted call has exactly one result in the log (service.md 6). A call that never started is
settled as that; one in flight as interrupted, its effect unknown; its approvals and questions as
cancelled.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import orjson

from app.log.approvals import ApprovalResolved, QuestionAnswered
from app.log.calls import ToolSettled
from app.log.envelope import NewEvent
from app.log.payload import WorkerRef, delegation_of
from app.log.queries import LogScope

if TYPE_CHECKING:
    from collections.abc import Iterable

    from app.log.envelope import Event
    from app.log.records import RunRecord
    from app.service.ports.database import Session

RESULTS: Final = ("tool.completed", "tool.failed", "tool.settled")
CALL_EVENTS: Final = ("message.assistant", "tool.started", "delegate.started", *RESULTS)
_STARTS: Final = frozenset({"tool.started", "delegate.started"})
_TEXTS: Final = {
    "cancelled": "cancelled before start",
    "interrupted": "interrupted, effect unknown",
}


@dataclass(frozen=True, slots=True)
class OpenCall:
    """An emitted call without a result; `worker` names whose it is, if it is a worker's."""

    call_id: str
    tool: str
    turn_id: str | None
    step: int | None
    started: bool = False
    worker: WorkerRef | None = None


def open_calls(events: Iterable[Event]) -> list[OpenCall]:
    """The calls without a result among a run's events of CALL_EVENTS, in the order emitted."""
    emitted: dict[str, OpenCall] = {}
    started: set[str] = set()
    for event in events:
        data = event.data
        if event.type == "message.assistant":
            for part in _calls(data):
                emitted[part["call_id"]] = OpenCall(
                    part["call_id"],
                    part["tool"],
                    event.turn_id,
                    event.step,
                    worker=_worker(data),
                )
        elif event.type in _STARTS:
            started.add(data["call_id"])
        elif event.type in RESULTS:
            emitted.pop(data["call_id"], None)
    # What a worker left open is closed before the delegation it works behind.
    calls = sorted(emitted.values(), key=lambda call: call.worker is None)
    return [replace(call, started=call.call_id in started) for call in calls]


async def settlements(session: Session, run: RunRecord) -> list[NewEvent]:
    """The events that close a run's open calls and cancel what it asked people."""
    scope = LogScope(run.conversation_id, run.id)
    log = await session.events_of(scope, CALL_EVENTS)
    events = [
        NewEvent(
            ApprovalResolved(
                approval_id=asked.id, call_id=asked.call_id, status="cancelled", by="cancel"
            ),
            run_id=run.id,
        )
        for asked in await session.run_approvals(run.id)
        if asked.status == "pending"
    ]
    events += [
        NewEvent(
            QuestionAnswered(
                question_id=asked.id,
                call_id=asked.call_id,
                answers=(),
                outcome="cancelled",
                answered_by=None,
            ),
            run_id=run.id,
        )
        for asked in await session.run_questions(run.id)
        if asked.status == "pending"
    ]
    for call in open_calls(log):
        outcome = "interrupted" if call.started else "cancelled"
        text = orjson.dumps({"error": _TEXTS[outcome], "code": outcome}).decode()
        settled = ToolSettled(
            call_id=call.call_id,
            tool=call.tool,
            result=text,
            outcome=outcome,
            worker=call.worker,
        )
        events.append(NewEvent(settled, run_id=run.id, turn_id=call.turn_id, step=call.step))
    return events


def _worker(data: dict[str, Any]) -> WorkerRef | None:
    return WorkerRef.model_validate(data["worker"]) if delegation_of(data) else None


def _calls(data: dict[str, Any]) -> list[dict[str, Any]]:
    return [part for part in data["content"] if part["type"] == "tool_call"]
