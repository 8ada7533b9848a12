"""What events about conversations, runs and calls do to the projections."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from app.log import calls, runs
from app.store.projections import kinds
from app.store.projections.changes import Change
from app.store.projections.fact import own_run, run_change
from app.store.texts import escape, escape_all, json_text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from app.log.payload import Payload
    from app.store.projections.fact import Fact


def _conversation_created(fact: Fact, payload: runs.ConversationCreated) -> list[Change]:
    return [
        _described(
            fact,
            {
                "principal": payload.principal,
                "participants": list(payload.participants),
                "title": payload.title,
                "metadata": payload.metadata,
            },
        )
    ]


def _conversation_updated(fact: Fact, payload: runs.ConversationUpdated) -> list[Change]:
    return [_described(fact, payload.changed)]


def _described(fact: Fact, changed: Mapping[str, Any]) -> Change:
    conversation_id = fact.event.conversation_id
    principal, title = changed.get("principal"), changed.get("title")
    participants, metadata = changed.get("participants"), changed.get("metadata")
    row = {
        "conversation_id": conversation_id,
        "principal": None if principal is None else escape(principal),
        "participants": None if participants is None else escape_all(tuple(participants)),
        "title": None if title is None else escape(title),
        "has_title": "title" in changed,
        "metadata": None if metadata is None else json_text(metadata),
    }
    return Change(kinds.CONVERSATION_DESCRIBED, row, writes=f"conversation:{conversation_id}")


def _run_created(fact: Fact, payload: runs.RunCreated) -> list[Change]:
    run_id = own_run(fact)
    row = {
        "id": run_id,
        "conversation_id": fact.event.conversation_id,
        "agent": escape(payload.agent),
        "agent_digest": payload.agent_digest,
        "principal": escape(payload.principal),
        "unattended": payload.unattended,
        "goes_next": payload.on_busy == "interrupt",
        "max_steps": payload.max_steps,
        "tainted": fact.tainted,
        "metadata": json_text(payload.metadata),
        "created_seq": fact.event.seq,
        "created_at": fact.at,
    }
    marks = frozenset({f"created:{run_id}"})
    return [Change(kinds.RUN_CREATED, row, writes=f"run:{run_id}", marks=marks)]


def _run_started(fact: Fact, payload: runs.RunStarted | runs.RunResumed) -> list[Change]:
    return [
        run_change(
            fact,
            own_run(fact),
            status="running",
            attempts=payload.attempt,
            started_at=fact.at,
            tainted=fact.tainted,
        )
    ]


def _run_paused(fact: Fact, _: runs.RunPaused) -> list[Change]:
    return [run_change(fact, own_run(fact), status="paused")]


def _step_completed(fact: Fact, payload: runs.StepCompleted) -> list[Change]:
    # A worker's steps are not the run's, but its tokens are.
    own = 1 if payload.worker is None else 0
    return [run_change(fact, own_run(fact), steps_added=own, **payload.usage.model_dump())]


def _run_completed(fact: Fact, payload: runs.RunCompleted) -> list[Change]:
    return [
        run_change(
            fact,
            own_run(fact),
            status="completed",
            answer=payload.answer.text().decode(),
            steps=payload.steps,
            ended_at=fact.at,
            usage_is_total=True,
            **payload.usage.model_dump(),
        )
    ]


def _run_failed(fact: Fact, payload: runs.RunFailed) -> list[Change]:
    return [
        run_change(
            fact,
            own_run(fact),
            status="failed",
            error=json_text({"code": payload.code, "message": payload.message}),
            ended_at=fact.at,
            usage_is_total=True,
            **payload.usage.model_dump(),
        )
    ]


def _run_cancelled(fact: Fact, _: runs.RunCancelled) -> list[Change]:
    return [run_change(fact, own_run(fact), status="cancelled", ended_at=fact.at)]


def _execution(fact: Fact, call_id: str) -> tuple[dict[str, Any], str]:
    """The identifying columns of a call's execution, and its subject."""
    run_id, key = own_run(fact), escape(call_id)
    row = {
        "conversation_id": fact.event.conversation_id,
        "run_id": run_id,
        "call_id": key,
    }
    return row, f"execution:{run_id}/{key}"


def _tool_started(fact: Fact, payload: calls.ToolStarted) -> list[Change]:
    row, subject = _execution(fact, payload.call_id)
    row |= {"attempt": payload.attempt, "settled": False}
    return [Change(kinds.EXECUTION_STARTED, row, writes=subject)]


def _tool_settled(
    fact: Fact, payload: calls.ToolCompleted | calls.ToolFailed | calls.ToolSettled
) -> list[Change]:
    row, subject = _execution(fact, payload.call_id)
    return [Change(kinds.EXECUTION_SETTLED, row, writes=subject)]


RULES: dict[type[Payload], Callable[[Fact, Any], list[Change]]] = {
    runs.ConversationCreated: _conversation_created,
    runs.ConversationUpdated: _conversation_updated,
    runs.RunCreated: _run_created,
    runs.RunStarted: _run_started,
    runs.RunResumed: _run_started,
    runs.RunPaused: _run_paused,
    runs.StepCompleted: _step_completed,
    runs.RunCompleted: _run_completed,
    runs.RunFailed: _run_failed,
    runs.RunCancelled: _run_cancelled,
    calls.ToolStarted: _tool_started,
    calls.ToolCompleted: _tool_settled,
    calls.ToolFailed: _tool_settled,
    calls.ToolSettled: _tool_settled,
}
