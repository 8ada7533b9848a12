"""Approvals: read, sign, decide, expire (service.md 5). The checks themselves are `decisions`'."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import orjson

from app.engine.arguments import canonical_bytes
from app.log.approvals import (
    ApprovalDecided,
    ApprovalResolved,
    DecisionRefused,
    SessionApprovalEnded,
)
from app.log.envelope import NewEvent
from app.log.payload import CoveredBy
from app.policy.capability import CapabilitySet, parse_capabilities
from app.policy.grants import SessionApproval
from app.policy.taint import Trust
from app.service import decisions
from app.service.reach import locked_approval, visible_approval, visible_conversation
from app.service.refusals import DecisionMalformed, FieldFault, NotFound, RequestInvalid
from app.service.requests import Decided, SignedPayload
from app.trust.decision import (
    Choice,
    Malformed,
    ReadDecision,
    binding_mismatch,
    build_payload,
    canonical_payload,
)
from app.trust.passkey_decision import ReadPasskeyDecision

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from pydantic import JsonValue

    from app.log.queries import Page
    from app.log.records import ApprovalRecord, LockedApproval, SessionApprovalRecord
    from app.service.binding import Binder
    from app.service.caller import Caller
    from app.service.clock import Clock
    from app.service.decisions import Effective
    from app.service.ports import Database, Session, Transaction
    from app.service.refusals import DecisionRefusal
    from app.service.requests import DecisionDraft, Verdict
    from app.trust.decision import VerifiedDecision

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
            now=int(self._clock.now().timestamp()),
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
        key_id = read.kid if isinstance(read, ReadDecision) else None
        passkey = read.proof.thumbprint if isinstance(read, ReadPasskeyDecision) else None
        locked = await locked_approval(tx, caller, approval_id, key_id=key_id, passkey=passkey)
        if isinstance(read, DecisionMalformed):
            raise read
        approval, now = locked.approval, self._clock.now()
        signed = decisions.verified(caller, read, locked, origins=self._origins)
        await decisions.check_counter(tx, locked, read, signed)
        decisions.check_binding(approval, signed.payload)
        await decisions.check_time_and_nonce(tx, approval, signed, now=now)
        decisions.check_approver(caller, approval, signed)
        effective = decisions.effective_of(approval, signed.payload.override_args)
        if decisions.already_decided(approval, signed.payload, effective, now=now):
            return Decided(approval, persisted=False)
        if effective.edited:
            executor = await self._binder.executor_of(tx, approval)
            await decisions.check_edit(approval, effective, executor)
        events = await self._decision_events(tx, caller, approval, signed, effective)
        await self._settle(tx, locked, events, now=now)
        return Decided(await _known(tx, approval_id), persisted=True)

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
            await self._settle(tx, locked, [_resolved(approval, "expired", by="expiry")], now=now)

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

    async def _decision_events(
        self,
        tx: Transaction,
        caller: Caller,
        approval: ApprovalRecord,
        signed: VerifiedDecision,
        effective: Effective,
    ) -> list[NewEvent]:
        payload = signed.payload
        approves = payload.decision == "approve"
        needed = approval.card["required"]["count"]
        agreeing = {
            one.approver: one.scope
            for one in approval.decisions
            if one.decision == "approve" and one.effective_args_sha256 == effective.sha256
        } | {payload.approver: payload.scope}
        collected = len(agreeing) if approves else 1
        decided = ApprovalDecided(
            approval_id=approval.id,
            call_id=approval.call_id,
            decision=payload.decision,
            approver=payload.approver,
            caller=caller.principal,
            assurance=signed.assurance,
            key_id=signed.kid,
            scope=payload.scope,
            covered_capabilities=payload.covered_capabilities,
            edited=approves and effective.edited,
            effective_args_sha256=effective.sha256 if approves else None,
            collected=collected,
            needed=needed,
            signed=True,
        )
        events = [
            NewEvent(
                decided,
                run_id=approval.run_id,
                trust=Trust.TRUSTED_USER,
                private=signed.evidence,
            )
        ]
        if not approves:
            return [*events, _resolved(approval, "denied", by="decision")]
        if collected < needed:
            return events
        events.append(_resolved(approval, "approved", by="decision"))
        if set(agreeing.values()) == {"session"}:
            events.extend(await _covered_siblings(tx, approval, payload.covered_capabilities))
        return events

    async def _settle(
        self, tx: Transaction, locked: LockedApproval, events: list[NewEvent], *, now: datetime
    ) -> None:
        """Append what became of the approval; the last answer that a run waits for wakes it."""
        conversation_id = locked.approval.conversation_id
        await tx.append(conversation_id, events, now=now)
        settled = {
            event.payload.approval_id
            for event in events
            if isinstance(event.payload, ApprovalResolved)
        }
        if locked.awaited <= settled:
            await tx.wake(conversation_id)


async def _covered_siblings(
    tx: Transaction, approval: ApprovalRecord, covered: tuple[str, ...]
) -> list[NewEvent]:
    """Other pending calls of the tool that the new session approval covers (turn.md 6.8)."""
    session = SessionApproval(parse_capabilities(covered), approval.id)
    by = CoveredBy(kind="session", id=approval.id)
    return [
        _resolved(other, "approved", by="session", covered_by=by)
        for other in await tx.run_approvals(approval.run_id)
        if other.status == "pending"
        and other.id != approval.id
        and other.card["tool"] == approval.card["tool"]
        and other.card["agent"] == approval.card["agent"]
        and other.card["tool_definition_digest"] == approval.card["tool_definition_digest"]
        and session.fits(_missing(other), cacheable=other.card["risk"]["session_allowed"])
    ]


def _missing(approval: ApprovalRecord) -> CapabilitySet:
    return parse_capabilities(approval.card["missing_capabilities"])


def _resolved(
    approval: ApprovalRecord, status: str, *, by: str, covered_by: CoveredBy | None = None
) -> NewEvent:
    resolved = ApprovalResolved.model_validate(
        {
            "approval_id": approval.id,
            "call_id": approval.call_id,
            "status": status,
            "by": by,
            "covered_by": covered_by,
        }
    )
    return NewEvent(resolved, run_id=approval.run_id)


def _canonical_edit(edit: dict[str, JsonValue]) -> str:
    try:
        return canonical_bytes(edit).decode()
    except ValueError as error:
        fault = FieldFault("/override_args", str(error))
        raise RequestInvalid(
            "the edited arguments have no canonical form", faults=(fault,)
        ) from error


async def _known(session: Session, approval_id: str) -> ApprovalRecord:
    approval = await session.approval(approval_id)
    if approval is None:
        raise NotFound("approval")
    return approval
