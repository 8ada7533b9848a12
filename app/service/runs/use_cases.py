"""Runs: create, read, list, cancel (service.md 4). Driving them is `driving`'s.

The edge checks the scope of a request; here is only what depends on what is asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from app.ids import Identity
from app.log.envelope import NewEvent
from app.log.payload import UsageTotals
from app.log.records import RunRecord
from app.log.runs import ConversationCreated, MessageUser, RunCancelled, RunCreated, TextContent
from app.policy.taint import Trust
from app.service.agents.snapshot import take_snapshot
from app.service.context.attaching import require_attached, require_dispositions
from app.service.reach import takes_part, visible_conversation, visible_run
from app.service.refusals import (
    AgentUnknown,
    CallerMemoryTooLarge,
    ConversationBusy,
    FieldFault,
    NotFound,
    OpenRunsExceeded,
    RunTerminal,
)
from app.service.runs.settle import settlements

if TYPE_CHECKING:
    from collections.abc import Mapping

    from app.log.envelope import Event
    from app.log.queries import Page
    from app.log.records import AgentRecord, ConversationRecord
    from app.service.caller import Caller
    from app.service.clock import Clock
    from app.service.ports.database import Database, Session, Transaction
    from app.service.requests import RunRequest
    from app.service.streams.wakeups import Wakeups

CALLER_MEMORY_BYTES: Final = 32 * 1024
# More than one principal's requests can create at the same time, over all processes.
AT_ONCE: Final = 100


class Runs:
    """The use cases of the run resource."""

    def __init__(
        self, *, database: Database, clock: Clock, wakeups: Wakeups, open_runs: int
    ) -> None:
        self._database = database
        self._clock = clock
        self._wakeups = wakeups
        self._open_runs = open_runs

    async def create(self, tx: Transaction, caller: Caller, request: RunRequest) -> RunRecord:
        """Accept a run and enqueue it, in one transaction."""
        if request.unattended:
            caller.require("triggers:write")
        if len(request.caller_memory or b"") > CALLER_MEMORY_BYTES:
            raise CallerMemoryTooLarge(CALLER_MEMORY_BYTES)
        require_dispositions(request.attachments)
        agent = await self._agent(tx, caller, request)
        now = self._clock.now()
        conversation = await self._conversation(tx, caller, request)
        await require_attached(tx, conversation, request.attachments)
        if conversation is None:
            conversation_id = self._clock.mint("conv")
            await tx.create_conversation(conversation_id, now=now)
            opening = [NewEvent(ConversationCreated(principal=caller.principal))]
        else:
            conversation_id, opening = conversation.id, []
            await self._make_room(tx, caller, conversation_id, request)
        run_id, payload = self._clock.mint("run"), _payload(agent, caller, request)
        snapshot = await take_snapshot(tx, agent)
        accepted = NewEvent(payload, run_id=run_id, private=snapshot)
        message = self._message(run_id, caller, request, conversation)
        *_, created, said = await tx.append(conversation_id, [*opening, accepted, message], now=now)
        await tx.wake(conversation_id)
        tainted = conversation is not None and conversation.tainted
        return _queued(run_id, payload, created, caller=caller, said=said, tainted=tainted)

    async def cancel(self, tx: Transaction, caller: Caller, run_id: str) -> RunRecord:
        """End a run now: its worker loses the lease, and what it left open is settled."""
        run = await visible_run(tx, caller, run_id)
        conversation = await tx.lock(run.conversation_id)
        if conversation is None or not takes_part(caller, conversation):
            raise NotFound("run")
        run = await _known(tx, run_id)
        if run.status == "cancelled":
            return run
        if run.is_ended:
            raise RunTerminal(f"run {run_id!r} is over: {run.status}")
        await self._cancel(tx, run, by=caller.principal, reason="requested")
        await tx.wake(run.conversation_id)
        return await _known(tx, run_id)

    async def read(self, session: Session, caller: Caller, run_id: str) -> RunRecord:
        """One run."""
        return await visible_run(session, caller, run_id)

    async def page(
        self, session: Session, caller: Caller, page: Page, filters: Mapping[str, str]
    ) -> list[RunRecord]:
        """A page of the runs within the caller's reach, newest first."""
        return await session.runs(caller.reach, page, filters=filters)

    async def settled(self, caller: Caller, run_id: str, seconds: float) -> RunRecord:
        """The run once it is paused or over, or as it is after so many seconds."""
        async with self._database.session(caller.tenant) as session:
            conversation_id = (await visible_run(session, caller, run_id)).conversation_id

        async def look() -> RunRecord:
            async with self._database.session(caller.tenant) as session:
                return await _known(session, run_id)

        return await self._wakeups.until(
            look,
            lambda run: run.status == "paused" or run.is_ended,
            conversation_id=conversation_id,
            seconds=seconds,
        )

    async def _agent(self, tx: Transaction, caller: Caller, request: RunRequest) -> AgentRecord:
        """The agent that is asked for, if its caller may have one run more."""
        found = await tx.agent_and_open_runs(request.agent, caller.principal)
        if found is not None and found[1] + AT_ONCE > self._open_runs:
            # Near the bound, runs that are created at the same time are counted one by one.
            await tx.lock_principal(caller.principal)
            found = await tx.agent_and_open_runs(request.agent, caller.principal)
        if found is None:
            fault = FieldFault("/agent", "no such agent")
            raise AgentUnknown(f"there is no agent {request.agent!r}", faults=(fault,))
        agent, open_runs = found
        if open_runs >= self._open_runs:
            raise OpenRunsExceeded(f"a principal may have at most {self._open_runs} open runs")
        return agent

    async def _conversation(
        self, tx: Transaction, caller: Caller, request: RunRequest
    ) -> ConversationRecord | None:
        if request.conversation_id is None:
            return None
        await visible_conversation(tx, caller, request.conversation_id)
        locked = await tx.lock(request.conversation_id)
        if locked is None or not takes_part(caller, locked):
            raise NotFound("conversation")
        return locked

    async def _make_room(
        self, tx: Transaction, caller: Caller, conversation_id: str, request: RunRequest
    ) -> None:
        unfinished = await tx.unfinished_runs(conversation_id)
        if unfinished and request.on_busy == "reject":
            raise ConversationBusy(f"conversation {conversation_id!r} has an active run")
        if request.on_busy == "interrupt":
            for run in unfinished:
                if run.started_at is not None:
                    await self._cancel(tx, run, by=caller.principal, reason="interrupted")

    async def _cancel(self, tx: Transaction, run: RunRecord, *, by: str, reason: str) -> None:
        others = await tx.unfinished_runs(run.conversation_id)
        if not any(other.started_at is not None and other.id != run.id for other in others):
            # Whoever holds the lease drives this run, or has just claimed it and is about to.
            await tx.revoke_lease(run.conversation_id)
        events = await settlements(tx, run)
        events.append(NewEvent(RunCancelled(by=by, reason=reason), run_id=run.id))
        await tx.append(run.conversation_id, events, now=self._clock.now())
        # Its worker may have had the answer, and stored the turn just before.
        identity = Identity(run.tenant, run.principal, run.conversation_id)
        await tx.forget_memory(identity, run=run.id)

    def _message(
        self,
        run_id: str,
        caller: Caller,
        request: RunRequest,
        conversation: ConversationRecord | None,
    ) -> NewEvent:
        said = MessageUser(
            message_id=self._clock.mint("msg"),
            content=tuple(TextContent(text=text) for text in request.input),
            principal=caller.principal,
        )
        # Only the conversation's principal is trusted; a second speaker taints (service.md 2).
        own = conversation is None or conversation.principal == caller.principal
        trust = Trust.TRUSTED_USER if own else Trust.QUARANTINED_CONTENT
        return NewEvent(said, run_id=run_id, trust=trust, private=request.caller_memory)


def _payload(agent: AgentRecord, caller: Caller, request: RunRequest) -> RunCreated:
    return RunCreated(
        agent=agent.name,
        agent_digest=agent.digest,
        principal=caller.principal,
        unattended=request.unattended,
        on_busy=request.on_busy,
        max_steps=request.max_steps,
        attachments=request.attachments,
        metadata=request.metadata,
    )


def _queued(
    run_id: str, payload: RunCreated, created: Event, *, caller: Caller, said: Event, tainted: bool
) -> RunRecord:
    """The run as its two events leave it; `tainted` says whether the log was so before them."""
    return RunRecord(
        id=run_id,
        tenant=caller.tenant,
        conversation_id=created.conversation_id,
        agent=payload.agent,
        agent_digest=payload.agent_digest,
        principal=payload.principal,
        status="queued",
        answer=None,
        error=None,
        usage=UsageTotals(),
        steps=0,
        tainted=tainted or said.trust.taints,
        unattended=payload.unattended,
        max_steps=payload.max_steps,
        attempts=0,
        head_seq=said.seq,
        created_seq=created.seq,
        created_at=created.at,
        started_at=None,
        ended_at=None,
        metadata=payload.metadata,
    )


async def _known(session: Session, run_id: str) -> RunRecord:
    run = await session.run(run_id)
    if run is None:
        raise NotFound("run")
    return run
