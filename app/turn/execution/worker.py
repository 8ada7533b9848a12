"""The work behind one delegation: a nested turn, through the same `run_turn` (turn.md 7.1).

The worker sees its instructions, the task and the context, and nothing else of the parent's. What
it states carries `worker`; what it is asked for waits on the root run. It may never do what its
parent may not, takes the parent's taint along, and brings its own back with its answer.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import orjson

from app.engine.agent_run import AgentRun
from app.engine.messages import AssistantMessage
from app.engine.turn_content import tool_calls
from app.engine.usage import Usage
from app.log.calls import DelegateCompleted, DelegateStarted, ToolSettled
from app.log.payload import WorkerRef
from app.policy.taint import Trust
from app.turn import texts
from app.turn.agent import BoundAgent
from app.turn.attempt import Raised, attempt
from app.turn.execution.worker_ports import WorkerJournal, WorkerRecorder, WorkerStream
from app.turn.model.reply_facts import usage_totals
from app.turn.options import RunTurnOptions
from app.turn.ports import Fact, ToolOutcome, WorkerScope
from app.turn.result import DelegateRecord, EndedBy, PausedWorker
from app.turn.state.ledger import worker_turn_id
from app.turn.transcript import CallMark, Transcript

if TYPE_CHECKING:
    from app.engine.commands import PendingToolCall
    from app.turn.gate.verdict import Delegation
    from app.turn.ports import ToolExecutor
    from app.turn.result import PendingApproval, TurnResult
    from app.turn.state.context import TurnCtx
    from app.turn.transcript import LoggedCall

_NO_WORKSPACE: Final = "no_workspace"
_NO_TEXT: Final = "no_path"


@dataclass(frozen=True, slots=True)
class Office:
    """Where a worker works: its tools, in a workspace of its own, and the taint it begins with.

    Without tools there was none to be had, and the worker cannot begin.
    """

    ref: WorkerRef
    transcript: Transcript
    is_tainted: bool
    tools: ToolExecutor | None
    shared_paths: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Answered:
    """The worker came to its end: its answer or failure, and the record of it."""

    outcome: ToolOutcome
    record: DelegateRecord
    is_tainted: bool

    def completed(self) -> DelegateCompleted:
        """The end as the log has it."""
        return DelegateCompleted(
            call_id=self.record.sub_agent_id,
            agent=self.record.target,
            succeeded=self.record.succeeded,
            error=self.record.error,
            usage=usage_totals(self.record.usage),
            first_party=self.record.first_party,
            tainted=self.is_tainted,
        )


@dataclass(frozen=True, slots=True)
class Asked:
    """The worker waits for a person."""

    paused: PausedWorker
    approvals: tuple[PendingApproval, ...]


@dataclass(frozen=True, slots=True)
class Assignment:
    """What a worker is given, as it lies beside `delegate.started`: words and files."""

    prompt: str
    shared_paths: tuple[str, ...] = ()

    def encode(self) -> bytes:
        """The private bytes of the event."""
        return orjson.dumps({"prompt": self.prompt, "shared_paths": self.shared_paths})

    @classmethod
    def decode(cls, private: bytes) -> Assignment:
        """The assignment of stored bytes. Raises ValueError for any other bytes."""
        stored = orjson.loads(private)
        return cls(stored["prompt"], tuple(stored["shared_paths"]))

    def transcript(self, call_id: str) -> Transcript:
        """Where the worker behind that delegation starts from."""
        run = AgentRun.new(self.prompt)
        return Transcript(run=run, turn_number=1, user_text=self.prompt, under=call_id)


async def begin(ctx: TurnCtx, delegation: Delegation) -> Office:
    """Open the worker's workspace, and state that it begins; one that has begun only goes on."""
    call_id, stored = delegation.call.call_id, delegation.stored
    opening = _opened(ctx, delegation)
    opened = await attempt(opening, doing="for_worker", call_id=call_id)
    tools, shared = (None, ()) if isinstance(opened, Raised) else opened
    ref = WorkerRef(call_id=call_id, agent=delegation.descriptor.agent_id)
    if stored is not None:
        return Office(ref, stored.transcript, stored.is_tainted, tools, stored.shared_paths)
    ctx.delegations_used += 1
    given = Assignment(_prompt(delegation.task, delegation.context), shared)
    ctx.state(
        DelegateStarted(call_id=call_id, agent=ref.agent, task=delegation.task),
        trust=Trust.QUARANTINED_CONTENT if ctx.tainted else Trust.UNSPECIFIED,
        private=given.encode(),
    )
    return Office(ref, given.transcript(call_id), ctx.tainted, tools, shared)


def _prompt(task: str, context: str | None) -> str:
    return f"{task}\n\nContext:\n{context}" if context else task


async def _opened(ctx: TurnCtx, delegation: Delegation) -> tuple[ToolExecutor, tuple[str, ...]]:
    worker = delegation.descriptor
    scope = WorkerScope(
        run_id=ctx.run_id,
        call_id=delegation.call.call_id,
        tools=tuple(spec.name for spec in worker.tool_specs),
        share_in=worker.share_in,
    )
    tools = worker.tools.for_worker(scope)
    if delegation.stored is not None or worker.files is None or not worker.share_in:
        return tools, ()
    return tools, tuple(await worker.files.copy_in(scope))


async def work(ctx: TurnCtx, delegation: Delegation, office: Office) -> Answered | Asked:
    """The worker's turn, to its end or to a pause. Raises StepRefused."""
    if office.tools is None:
        return _not_begun(delegation)
    transcript, worker = office.transcript, delegation.descriptor
    turn_id = worker_turn_id(ctx.turn_id, office.ref.call_id, transcript.turn_number)
    journal = WorkerJournal(ctx.journal, office.ref, turn_id)
    result = await ctx.nested(
        worker.provider,
        office.tools,
        BoundAgent(
            name=worker.agent_id,
            model=worker.model,
            instructions=worker.instructions,
            grant_policy=worker.grant_policy,
            execution_ceiling=worker.execution_ceiling & ctx.agent.execution_ceiling,
        ),
        transcript,
        _options(ctx, delegation, office, turn_id),
        run_id=ctx.run_id,
        turn_id=turn_id,
        journal=journal,
    )
    if result.failure is not None:
        journal.conclude(*_left_open(transcript))
    await journal.settle()
    if result.ended_by is EndedBy.PAUSE:
        paused = PausedWorker(office.ref, transcript.run, result.tainted)
        return Asked(
            paused, tuple(_surfaced(one, paused, turn_id) for one in result.pending_approvals)
        )
    return _answered(delegation, office, result)


def _surfaced(pending: PendingApproval, paused: PausedWorker, turn_id: str) -> PendingApproval:
    """The request as the root run shows it: with its origin, and the turn that emitted the call."""
    emitted = pending.occurrence_turn_id or turn_id
    return replace(pending, worker=paused.worker, occurrence_turn_id=emitted)


def _options(ctx: TurnCtx, delegation: Delegation, office: Office, turn_id: str) -> RunTurnOptions:
    """Nothing of the parent's standing consents is among them (turn.md 2.2)."""
    worker, own = delegation.descriptor, ctx.options
    stream, recorder, cap = own.stream_tx, own.dispatch_recorder, worker.max_steps
    return RunTurnOptions(
        approval_decisions=ctx.ledger.take_under(office.ref.call_id),
        max_steps=None if cap is None else max(1, cap - office.transcript.steps_before),
        default_max_steps=own.default_max_steps,
        stream_tx=None if stream is None else WorkerStream(stream, office.ref),
        native_search_allowed=worker.native_search_allowed,
        unattended=own.unattended,
        escalate_sandbox_denials=worker.escalate_sandbox_denials,
        untrusted_context_seed=office.is_tainted,
        dispatch_recorder=None
        if recorder is None
        else WorkerRecorder(recorder, office.ref, turn_id),
        clock=own.clock,
        cache_hint=own.cache_hint,
        is_delegated_worker=True,
        turn_start_unix_ms=ctx.now_unix_ms,
    )


def _answered(delegation: Delegation, office: Office, result: TurnResult) -> Answered:
    error = _error(result)
    record = DelegateRecord(
        sub_agent_id=office.ref.call_id,
        target=office.ref.agent,
        task=delegation.task,
        context=delegation.context,
        provider=delegation.descriptor.provider_name,
        model=delegation.descriptor.model,
        usage=office.transcript.run.usage(),
        succeeded=error is None,
        error=error,
        first_party=_is_first_party(delegation),
        grant_replays=result.grant_replays,
        unattended_denials=result.unattended_denials,
        shared_paths=office.shared_paths,
    )
    trust = Trust.QUARANTINED_CONTENT if result.tainted else Trust.UNSPECIFIED
    if error is None:
        return Answered(ToolOutcome(text=result.text, trust=trust), record, result.tainted)
    text = texts.delegate_failed(office.ref.agent, error)
    return Answered(ToolOutcome(text=text, code="tool_failed", trust=trust), record, result.tainted)


def _error(result: TurnResult) -> str | None:
    """Why the worker has no answer; one that was cut short by a cap may have one all the same."""
    if result.failure is not None:
        return result.failure.kind.value
    if result.ended_by is not EndedBy.ANSWER and not result.text.strip():
        return _NO_TEXT
    return None


def _not_begun(delegation: Delegation) -> Answered:
    """There is no workspace, so nothing ran and nobody was asked."""
    target = delegation.descriptor.agent_id
    record = DelegateRecord(
        sub_agent_id=delegation.call.call_id,
        target=target,
        task=delegation.task,
        context=delegation.context,
        provider="",
        model="",
        usage=Usage(),
        succeeded=False,
        error=_NO_WORKSPACE,
        first_party=_is_first_party(delegation),
    )
    text = texts.delegate_failed(target, _NO_WORKSPACE)
    return Answered(ToolOutcome(text=text, code="tool_failed"), record, is_tainted=False)


def _is_first_party(delegation: Delegation) -> bool:
    worker = delegation.descriptor
    return not any(worker.tools.ingests_untrusted_content(one.name) for one in worker.tool_specs)


def _left_open(transcript: Transcript) -> list[Fact]:
    """The ends of the calls that a worker which failed leaves open: each has one result."""
    run, step = transcript.run, transcript.run.turn()
    pending = run.pending_tool_calls()
    if not pending:
        return []
    reply = next(one for one in reversed(run.messages()) if isinstance(one, AssistantMessage))
    ids = {
        position: transcript.call_id(step, index)
        for index, (position, _) in enumerate(tool_calls(reply.content))
    }
    dangling = {one.position: one for one in transcript.open_calls if one.step == step}
    return [
        Fact(_closed(call, ids[call.position], dangling.get(call.position)), step)
        for call in pending
    ]


def _closed(call: PendingToolCall, own_id: str, logged: LoggedCall | None) -> ToolSettled:
    started = logged is not None and logged.mark is CallMark.STARTED
    return ToolSettled(
        call_id=own_id if logged is None else logged.call_id,
        tool=call.tool_call.name,
        result=texts.interrupted() if started else texts.cancelled(),
        outcome="interrupted" if started else "cancelled",
    )
