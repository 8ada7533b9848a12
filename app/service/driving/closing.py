"""From what a turn returned to the events that close it (service.md 4: ends of a run)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import groupby
from typing import TYPE_CHECKING, assert_never

import orjson

from app.engine.finish import Finish, FinishReason
from app.engine.json.arguments import sha256_hex
from app.log.approvals import ApprovalRequested
from app.log.envelope import NewEvent
from app.log.payload import UsageTotals
from app.log.runs import Envelope, RunCheckpointed, RunCompleted, RunFailed, RunPaused
from app.runctx.answer import (
    AnswerEnvelope,
    CallFate,
    OutputInvalid,
    Trajectory,
    finish_answer_envelope,
)
from app.service.approvals.asking import requests
from app.service.questions.asking import question_asked
from app.turn.model.reply_facts import usage_totals
from app.turn.result import EndedBy
from app.turn.texts import redefined_reason

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from app.engine.agent_run import AgentRun
    from app.engine.json.output_schema import CompiledSchema
    from app.log.payload import WorkerRef
    from app.log.records import ApprovalRecord, RunRecord
    from app.service.agents.binding import Bound
    from app.service.approvals.asking import Background
    from app.service.clock import Clock
    from app.service.replay.open_questions import OpenQuestions
    from app.turn.result import PendingApproval, TurnResult

ENGINE_FORMAT = 1


def _is_of(asked: ApprovalRecord, call: PendingApproval) -> bool:
    """Whether the request shows the tool as it is defined now."""
    return bool(asked.card["tool_definition_digest"] == call.definition_digest)


@dataclass(frozen=True, slots=True)
class Turn:
    """One driven turn: whose it was, what it worked with, and where its AgentRun ended up.

    `executed` are the calls whose execution started in this turn or an earlier one, `asked` the
    requests about open calls as they were when it began, by call id, `questions` what was asked of
    people and waits, and `outdated` the tools with a standing consent to another definition.
    `worked` is what each reply of a worker cost, in this turn or an earlier one.
    """

    run: RunRecord
    turn_id: str
    bound: Bound
    schema: CompiledSchema | None
    machine: AgentRun
    executed: AbstractSet[str]
    asked: Mapping[str, ApprovalRecord]
    questions: OpenQuestions
    outdated: AbstractSet[str]
    worked: Sequence[UsageTotals] = ()

    def usage(self) -> UsageTotals:
        """What the run has spent so far, its workers' part included."""
        spent = [usage_totals(self.machine.usage()), *self.worked]
        return UsageTotals(
            **{name: sum(getattr(one, name) for one in spent) for name in UsageTotals.model_fields}
        )

    def trajectory(self) -> Trajectory:
        """What the run did, as far as its answer tells of it."""
        return Trajectory(((CallFate.EXECUTED,) * len(self.executed),))

    def open_request(self, call: PendingApproval) -> str | None:
        """The request that is open still, so that nobody is asked a second time."""
        asked = self.asked.get(call.call_id)
        if asked is None or asked.status != "pending" or call.supersedes is not None:
            return None
        return asked.id if _is_of(asked, call) else None

    def asked_anew(self, call: PendingApproval) -> PendingApproval:
        """The call as it is to be asked: in place of its earlier request, if there was one."""
        if call.supersedes is not None:
            return call
        asked = self.asked.get(call.call_id)
        is_outdated = call.worker is None and call.tool_name in self.outdated
        is_changed = is_outdated if asked is None else not _is_of(asked, call)
        reason = f"{redefined_reason(call.tool_name)} {call.reason}".strip()
        return replace(
            call,
            supersedes=None if asked is None else asked.id,
            reason=reason if is_changed else call.reason,
        )


def closing(
    turn: Turn, result: TurnResult, *, background: Background, clock: Clock
) -> list[NewEvent]:
    """The events that end the turn, the last of which pauses or ends the run."""
    match result.ended_by:
        case EndedBy.PAUSE:
            return _pause(turn, result, background, clock)
        case EndedBy.ANSWER | EndedBy.STEP_CAP | EndedBy.DENIAL_CAP:
            return [_end(turn, result)]
        case EndedBy.FAILURE:
            return [_failure(turn, result)]
        case _:
            assert_never(result.ended_by)


def failed(
    run: RunRecord, turn_id: str | None, *, code: str, message: str, usage: UsageTotals
) -> NewEvent:
    """The run ends without an answer."""
    return NewEvent(
        RunFailed(code=code, message=message, usage=usage), run_id=run.id, turn_id=turn_id
    )


def _pause(turn: Turn, result: TurnResult, background: Background, clock: Clock) -> list[NewEvent]:
    kept_runs: list[tuple[AgentRun, WorkerRef | None]] = [
        *((paused.run, paused.worker) for paused in result.paused_workers),
        (turn.machine, None),
    ]
    requested = [(turn.open_request(call), call) for call in result.pending_approvals]
    kept = [request for request, _ in requested if request is not None]
    asked = requests(
        [turn.asked_anew(call) for request, call in requested if request is None],
        run=turn.run,
        turn_id=turn.turn_id,
        bound=turn.bound,
        background=background,
        clock=clock,
    )
    opened = [event.payload.id for event in asked if isinstance(event.payload, ApprovalRequested)]
    waiting, posed = _questions(turn, result, clock)
    paused = RunPaused(approvals=(*kept, *opened), questions=waiting)
    return [
        *(_checkpoint(turn, run, worker) for run, worker in kept_runs),
        *asked,
        *posed,
        NewEvent(paused, run_id=turn.run.id, turn_id=turn.turn_id),
    ]


def _checkpoint(turn: Turn, run: AgentRun, worker: WorkerRef | None) -> NewEvent:
    """The AgentRun of the run, or of a worker that waits, to be loaded where it goes on."""
    document = run.dump_json().encode()
    checkpoint = RunCheckpointed(
        engine_format=ENGINE_FORMAT,
        sha256=sha256_hex(document),
        size_bytes=len(document),
        worker=worker,
    )
    return NewEvent(checkpoint, run_id=turn.run.id, turn_id=turn.turn_id, private=document)


def _questions(
    turn: Turn, result: TurnResult, clock: Clock
) -> tuple[tuple[str, ...], list[NewEvent]]:
    """The questions the pause waits for, in order, and those among them that are new."""
    waiting: list[str] = []
    posed: list[NewEvent] = []
    calls = groupby(result.pending_questions, key=lambda one: one.call_id)
    for call_id, pending in calls:
        question = turn.questions.of_call(call_id)
        if question is None:
            question = clock.mint("ques")
            posed.append(
                question_asked(
                    question,
                    list(pending),
                    run=turn.run,
                    turn_id=turn.turn_id,
                    bound=turn.bound,
                    now=clock.now(),
                )
            )
        waiting.append(question)
    return tuple(waiting), posed


def _end(turn: Turn, result: TurnResult) -> NewEvent:
    usage = turn.usage()
    capped = result.ended_by is not EndedBy.ANSWER
    if capped and not result.text.strip():
        return failed(
            turn.run,
            turn.turn_id,
            code="no_path",
            message=f"the run ended by {result.ended_by.value} without any text",
            usage=usage,
        )
    finish = Finish(FinishReason.GOAL, result.text)
    try:
        answer = finish_answer_envelope(finish, trajectory=turn.trajectory(), schema=turn.schema)
    except OutputInvalid as error:
        return failed(turn.run, turn.turn_id, code=error.code, message=error.message, usage=usage)
    completed = RunCompleted(
        answer=_stored(answer),
        ended_by=result.ended_by.value,
        usage=usage,
        steps=turn.machine.turn(),
    )
    return NewEvent(completed, run_id=turn.run.id, turn_id=turn.turn_id)


def _stored(answer: AnswerEnvelope) -> Envelope:
    stored = Envelope(
        answer=answer.answer,
        finish_reason=answer.finish_reason.value,
        tool_calls_seen=answer.tool_calls_seen,
    )
    if answer.answer_payload is None:
        return stored
    return stored.model_copy(update={"answer_payload": orjson.loads(answer.answer_payload)})


def _failure(turn: Turn, result: TurnResult) -> NewEvent:
    reason = result.failure or result.mid_stream_failure
    code, message = ("internal", "") if reason is None else (reason.kind.value, reason.message)
    usage = turn.usage()
    return failed(turn.run, turn.turn_id, code=code, message=message, usage=usage)
