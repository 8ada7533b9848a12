"""Approvals: read, prepare, decide, expire (service.md 5). The checks are `decisions`'."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import orjson

from app.engine.json.arguments import canonical_bytes
from app.log.approvals import ApprovalResolved, DecisionRefused, SessionApprovalEnded
from app.log.envelope import NewEvent
from app.service.approvals import decisions
from app.service.approvals.outcome import Outcome, resolved
from app.service.reach import locked_approval, visible_approval, visible_conversation
from app.service.refusals import DecisionMalformed, FieldFault, NotFound, RequestInvalid
from app.service.requests import Decided, SignedPayload
from app.trust.decision import (
    Choice,
    Malformed,
    binding_mismatch,
    build_payload,
    canonical_payload,
)

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from pydantic import JsonValue

    from app.log.envelope import Event
    from app.log.queries import Page
    from app.log.records import ApprovalRecord, LockedApproval, SessionApprovalRecord
    from app.service.agents.binding import Binder
    from app.service.caller import Caller
    from app.service.clock import Clock
    from app.service.ports.database import Database, Session, Transaction
    from app.service.refusals import DecisionRefusal
    from app.service.requests import DecisionDraft, Verdict

RECORDED_REFUSALS: Final = 20


class Approvals:
    """The use cases of the approval resource."""

    def __init__(
        self,
        *,
        database: Database,
        clock: Clock,
        binder: Binder,
        origins: frozenset[str] = frozenset(),
    ) -> None:
        """`origins` are those whose pages may ask a passkey for a decision."""
        self._origins = origins
        self._database = database
        self._clock = clock
        self._binder = binder

    async def read(self, session: Session, caller: Caller, approval_id: str) -> ApprovalRecord:
        """One approval, never cut."""
        return await visible_approval(session, caller, approval_id)

    async def page(
        self, session: Session, caller: Caller, page: Page, filters: Mapping[str, str]
    ) -> list[ApprovalRecord]:
        """A page of the approvals within the caller's reach, newest first."""
        return await session.approvals(caller.reach, page, filters=filters)

    async def payload(
        self, session: Session, caller: Caller, approval_id: str, draft: DecisionDraft
    ) -> SignedPayload:
        """What the caller would sign for this decision; nothing is stored."""
        approval = await visible_approval(session, caller, approval_id)
        binding = decisions.binding_of(approval)
        edit = draft.override_args
        choice = Choice(
            decision=draft.decision,
            scope=draft.scope,
            override_args=None if edit is None else _canonical_edit(edit),
            note=draft.note,
            reason=draft.reason,
            sandbox_mode=draft.sandbox_mode,
        )
        payload = build_payload(
            binding,
            choice,
            approver=caller.principal,
            nonce=self._clock.nonce(),
            now=self._clock.now_s(),
        )
        if isinstance(payload, Malformed):
            raise RequestInvalid(
                payload.detail, faults=(FieldFault(payload.pointer or "", payload.detail),)
            )
        if pointer := binding_mismatch(payload, binding):
            fault = FieldFault(pointer, "is not what the approval allows")
            raise RequestInvalid("the approval does not allow this", faults=(fault,))
        text = canonical_payload(payload)
        return SignedPayload(orjson.loads(text), text.decode())

    async def decide(
        self, tx: Transaction, caller: Caller, approval_id: str, verdict: Verdict, proof: object
    ) -> Decided:
        """Take a signed decision. The first one wins; the same again changes nothing."""
        read = decisions.read_proof(proof, verdict)
        if isinstance(read, DecisionMalformed):
            await locked_approval(tx, caller, approval_id)
            raise read
        locked = await locked_approval(tx, caller, approval_id, decisions.claims_of(read))
        approval, now = locked.approval, self._clock.now()
        signed = decisions.verified(caller, read, locked, origins=self._origins)
        await decisions.check_counter(tx, locked, read, signed)
        decisions.check_binding(approval, signed.payload)
        decisions.check_time_and_nonce(locked, signed, now=now)
        decisions.check_approver(caller, approval, signed)
        effective = decisions.effective_of(approval, signed.payload.override_args)
        if decisions.already_decided(approval, signed.payload, effective, now=now):
            return Decided(approval, persisted=False)
        if effective.edited:
            executor = await self._binder.executor_of(tx, approval)
            await decisions.check_edit(approval, effective, executor)
        outcome = Outcome(approval, caller, signed, effective)
        decided, *_ = await self._settle(tx, locked, await outcome.events(tx), now=now)
        return Decided(outcome.approval_after(decided.at), persisted=True)

    async def note_refusal(
        self, caller: Caller, approval_id: str, refusal: DecisionRefusal
    ) -> None:
        """Record that a decision was refused while the approval is pending, at most 20 times."""
        async with self._database.transaction(caller.tenant) as tx:
            locked = await tx.lock_approval(approval_id)
            if locked is None:
                return
            approval = locked.approval
            if approval.status != "pending" or approval.refusals >= RECORDED_REFUSALS:
                return
            refused = DecisionRefused(
                approval_id=approval_id,
                code=refusal.code,
                pointer=refusal.faults[0].pointer if refusal.faults else None,
                caller=caller.principal,
            )
            event = NewEvent(refused, run_id=approval.run_id)
            await tx.append(approval.conversation_id, [event], now=self._clock.now())

    async def expire(self, tenant: str, approval_id: str) -> None:
        """End an approval that is past its time; the model will see it as a denial."""
        async with self._database.transaction(tenant) as tx:
            locked = await tx.lock_approval(approval_id)
            if locked is None:
                return
            approval, now = locked.approval, self._clock.now()
            due = approval.expires_at is not None and approval.expires_at <= now
            if approval.status != "pending" or not due:
                return
            await self._settle(tx, locked, [resolved(approval, "expired", by="expiry")], now=now)

    async def session_approvals(
        self, session: Session, caller: Caller, conversation_id: str
    ) -> list[SessionApprovalRecord]:
        """The standing consents of a conversation."""
        await visible_conversation(session, caller, conversation_id)
        return await session.session_approvals(conversation_id)

    async def end_session_approval(
        self, tx: Transaction, caller: Caller, conversation_id: str, tool: str
    ) -> None:
        """End the caller's own standing consents to a tool."""
        await visible_conversation(tx, caller, conversation_id)
        await tx.lock(conversation_id)
        own = [
            NewEvent(SessionApprovalEnded(tool=tool, agent=one.agent, principal=one.principal))
            for one in await tx.session_approvals(conversation_id)
            if one.tool == tool and one.principal == caller.principal
        ]
        if not own:
            raise NotFound("session approval")
        await tx.append(conversation_id, own, now=self._clock.now())

    async def _settle(
        self, tx: Transaction, locked: LockedApproval, events: list[NewEvent], *, now: datetime
    ) -> list[Event]:
        """Append what became of the approval; the last answer that a run waits for wakes it."""
        conversation_id = locked.approval.conversation_id
        appended = await tx.append(conversation_id, events, now=now)
        settled = {
            event.payload.approval_id
            for event in events
            if isinstance(event.payload, ApprovalResolved)
        }
        if locked.awaited <= settled:
            await tx.wake(conversation_id)
        return appended


def _canonical_edit(edit: dict[str, JsonValue]) -> str:
    try:
        return canonical_bytes(edit).decode()
    except ValueError as error:
        fault = FieldFault("/override_args", str(error))
        raise RequestInvalid(
            "the edited arguments have no canonical form", faults=(fault,)
        ) from error
