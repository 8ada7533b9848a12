"""Writing histories into a real store: short names for the events that tests append."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import TYPE_CHECKING, Any

from app.log import approvals, calls, runs
from app.log.envelope import NewEvent
from app.log.payload import UsageTotals, WorkerRef
from app.log.private import QuestionBinding
from app.policy.taint import Trust
from app.store.dispatch.wakes import enqueue_wakes
from tests.trust.decisions import APPROVE
from tests.trust.decisions import signed as signed_decision

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from app.log.envelope import Event
    from app.log.records import Lease
    from app.store.open import Store
    from app.store.server.connections import Connection

NOON = datetime(2026, 11, 29, 12, tzinfo=UTC)
_ids = count(1)


def new_id(prefix: str) -> str:
    """An id that no other has and that sorts after all before it."""
    return f"{prefix}_{next(_ids):012d}"


def after(seconds: float) -> datetime:
    """A time of the played clock."""
    return NOON + timedelta(seconds=seconds)


async def wake(store: Store, *conversation_ids: str) -> None:
    """Enqueue conversations, in a transaction of their own."""
    async with store.everyone.pool.acquire() as connection, connection.transaction():
        await enqueue_wakes(connection, conversation_ids)


@dataclass(slots=True)
class Talk:
    """A conversation of Alice's, written to by requests and by one worker at a time."""

    store: Store
    tenant: str
    id: str = field(default_factory=lambda: new_id("conv"))

    async def open(self, *, title: str | None = None, participants: Sequence[str] = ()) -> Talk:
        """Create it."""
        created = runs.ConversationCreated(
            principal="alice", participants=tuple(participants), title=title
        )
        async with self.store.database.transaction(self.tenant) as tx:
            await tx.create_conversation(self.id, now=NOON)
            await tx.append(self.id, [NewEvent(created)], now=NOON)
        return self

    async def ask(self, run_id: str | None = None, **fields: Any) -> str:
        """Accept a run and wake the conversation; the run's id."""
        run_id = run_id or new_id("run")
        async with self.store.database.transaction(self.tenant) as tx:
            await tx.lock(self.id)
            await tx.append(self.id, [run_created(run_id, **fields)], now=NOON)
            await tx.wake(self.id)
        return run_id

    async def request(self, *events: NewEvent, now: datetime = NOON) -> list[Event]:
        """Append as a request does."""
        async with self.store.database.transaction(self.tenant) as tx:
            await tx.lock(self.id)
            return await tx.append(self.id, events, now=now)

    async def claim(self, owner: str = "worker") -> Lease:
        """Take the lease; it must be free and a run ready."""
        lease = await self.store.leases.claim(self.id, owner=owner, ttl_s=60)
        assert lease is not None
        return lease

    async def write(self, lease: Lease, *events: NewEvent) -> list[Event]:
        """Append as the worker does."""
        return await self.store.leases.append(lease, events, now=NOON)

    async def finish(self, lease: Lease, *events: NewEvent) -> list[Event]:
        """Append as the worker does that lets go."""
        return await self.store.leases.finish(lease, events, now=NOON)


def run_created(run_id: str, **fields: Any) -> NewEvent:
    """A run of Alice's for the agent `helper`, unless said otherwise."""
    given = {"agent": "helper", "agent_digest": "d" * 64, "principal": "alice"} | fields
    return NewEvent(runs.RunCreated(**given), run_id=run_id)


def started(run_id: str, attempt: int = 1) -> NewEvent:
    """A worker took the run up."""
    return NewEvent(runs.RunStarted(attempt=attempt, worker="worker"), run_id=run_id)


def resumed(run_id: str, attempt: int = 2) -> NewEvent:
    """A worker took the run up again."""
    return NewEvent(runs.RunResumed(attempt=attempt, worker="worker"), run_id=run_id)


def said(run_id: str, text: str, *, trust: Trust = Trust.UNSPECIFIED) -> NewEvent:
    """Streamed text."""
    return NewEvent(runs.TextDelta(text=text), run_id=run_id, trust=trust)


def paused(run_id: str, *approval_ids: str, questions: Sequence[str] = ()) -> NewEvent:
    """The run waits."""
    return NewEvent(
        runs.RunPaused(approvals=approval_ids, questions=tuple(questions)), run_id=run_id
    )


def step_completed(run_id: str, tokens: int = 0, *, worker: str | None = None) -> NewEvent:
    """A step with so many input tokens; of a worker behind that call, if one is named."""
    return NewEvent(
        runs.StepCompleted(
            calls=0,
            usage=UsageTotals(input_tokens=tokens, total_tokens=tokens),
            worker=None if worker is None else WorkerRef(call_id=worker, agent="w"),
        ),
        run_id=run_id,
    )


def completed(run_id: str, answer: str = "done", *, steps: int = 1, tokens: int = 0) -> NewEvent:
    """The run ended with an answer."""
    return NewEvent(
        runs.RunCompleted(
            answer=runs.Envelope(answer=answer, finish_reason="goal", tool_calls_seen=0),
            ended_by="answer",
            usage=UsageTotals(input_tokens=tokens),
            steps=steps,
        ),
        run_id=run_id,
    )


def failed(run_id: str, code: str = "no_path") -> NewEvent:
    """The run ended without an answer."""
    return NewEvent(
        runs.RunFailed(code=code, message="it did not work", usage=UsageTotals()), run_id=run_id
    )


def cancelled(run_id: str) -> NewEvent:
    """Somebody ended the run."""
    return NewEvent(runs.RunCancelled(by="alice", reason="enough"), run_id=run_id)


def tool_started(run_id: str, call_id: str, attempt: int = 1) -> NewEvent:
    """An execution begins."""
    return NewEvent(
        calls.ToolStarted(
            call_id=call_id,
            request_id="r",
            tool="http_post",
            args_sha256="0" * 64,
            idempotency_key="k",
            attempt=attempt,
        ),
        run_id=run_id,
    )


def tool_completed(
    run_id: str, call_id: str, result: str = "ok", *, trust: Trust = Trust.UNSPECIFIED
) -> NewEvent:
    """The tool answered."""
    return NewEvent(
        calls.ToolCompleted(call_id=call_id, tool="http_post", result=result),
        run_id=run_id,
        trust=trust,
    )


def grant_replayed(run_id: str, grant_id: str = "grant_1", call_id: str = "call") -> NewEvent:
    """A remembered grant lets a call run."""
    payload = calls.GrantReplayed(
        call_id=call_id,
        tool="http_post",
        grant_ref=grant_id,
        coverage_hash="cc",
        cleared=("arbitrary-egress",),
    )
    return NewEvent(payload, run_id=run_id)


def approval_requested(
    approval_id: str,
    run_id: str,
    conversation_id: str,
    *,
    private: bytes | None = None,
    **fields: Any,
) -> NewEvent:
    """One call of `http_post` waits for a person with the role `approver`."""
    given = {
        "id": approval_id,
        "status": "pending",
        "run_id": run_id,
        "conversation_id": conversation_id,
        "turn_id": "turn_1",
        "request_id": "req",
        "call_id": "call_0_0",
        "agent": "helper",
        "tool": "http_post",
        "title": "Post",
        "tool_definition_digest": "e" * 64,
        "args": {"a": 1},
        "args_canonical": '{"a":1}',
        "args_sha256": "a" * 64,
        "reason": "",
        "required_capabilities": (),
        "missing_capabilities": (),
        "risk": approvals.Risk(
            destination=None,
            idempotent=True,
            session_allowed=True,
            outcome_unknown=False,
            sandbox_escalation=False,
        ),
        "requested_at": "2026-11-29T12:00:00.000Z",
        "expires_at": None,
        "required": approvals.Required(
            count=1, assurance="key", roles=("approver",), allow_self=True
        ),
    } | fields
    asked = approvals.ApprovalRequested.model_validate(given)
    return NewEvent(asked, run_id=run_id, private=private)


@asynccontextmanager
async def as_owner(store: Store) -> AsyncIterator[Connection]:
    """A connection that may what the service may not: see sessions, end them, change tables."""
    async with store.everyone.pool.acquire() as connection:
        await connection.execute("SET ROLE NONE")
        try:
            yield connection
        finally:
            await connection.execute("RESET ROLE")


async def somebody_waits(store: Store) -> None:
    """Returns when a session of the test's database waits for a lock."""
    waits = """SELECT count(*) FROM pg_stat_activity
        WHERE datname = current_database() AND wait_event_type = 'Lock'"""
    async with asyncio.timeout(10), as_owner(store) as connection:
        while not await connection.fetchval(waits):
            pass


def decided(
    approval_id: str, run_id: str, decision: str = "approve", *, needed: int = 1, **signed: Any
) -> NewEvent:
    """A person's first verified answer; `signed` are fields of the payload, such as `scope`."""
    payload = APPROVE | {"approval_id": approval_id, "decision": decision} | signed
    override = payload["override_args"]
    effective = None if decision == "deny" else ("b" if override else "a") * 64
    return NewEvent(
        approvals.ApprovalDecided.model_validate(
            {
                "approval_id": approval_id,
                "call_id": "call_0_0",
                "decision": decision,
                "approver": payload["approver"],
                "caller": payload["approver"],
                "assurance": "key",
                "key_id": "key_1",
                "scope": payload["scope"],
                "covered_capabilities": payload["covered_capabilities"],
                "edited": override is not None,
                "effective_args_sha256": effective,
                "collected": 1,
                "needed": needed,
                "signed": True,
            }
        ),
        run_id=run_id,
        private=signed_decision(payload).encode(),
    )


def resolved(approval_id: str, run_id: str, status: str, by: str = "decision") -> NewEvent:
    """The approval left `pending`."""
    return NewEvent(
        approvals.ApprovalResolved.model_validate(
            {"approval_id": approval_id, "call_id": "call_0_0", "status": status, "by": by}
        ),
        run_id=run_id,
    )


def question_asked(
    question_id: str, run_id: str, *, count: int = 1, expires_at: str | None = None
) -> NewEvent:
    """One `ask_question` call waits, about so many questions; bosses may answer."""
    binding = QuestionBinding("turn_0", "a" * 64, roles=("boss",), programs=("robot",))
    return NewEvent(
        approvals.QuestionAsked(
            id=question_id,
            status="pending",
            run_id=run_id,
            call_id="call_0_1",
            questions=tuple({"index": index, "question": "Which?"} for index in range(count)),
            asked_at="2026-11-29T12:00:00.000Z",
            expires_at=expires_at,
        ),
        run_id=run_id,
        private=binding.encode(),
    )


def question_answered(
    question_id: str,
    run_id: str,
    outcome: approvals.QuestionOutcome = "answered",
    *,
    indexes: Sequence[int] = (0,),
) -> NewEvent:
    """Those questions of it were answered."""
    return NewEvent(
        approvals.QuestionAnswered(
            question_id=question_id,
            call_id="call_0_1",
            answers=tuple({"index": index, "text": "that\0"} for index in indexes),
            outcome=outcome,
            answered_by="bob",
        ),
        run_id=run_id,
    )
