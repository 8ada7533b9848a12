"""What a verified decision does: the events that say so, and the approval as it is after them.

The approval is known from the decision, so nobody reads back what was just written.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from app.engine.json.arguments import sha256_hex
from app.log.approvals import ApprovalDecided, ApprovalResolved
from app.log.envelope import NewEvent
from app.log.payload import CoveredBy
from app.log.records import DecisionRecord
from app.policy.capability import CapabilitySet, parse_capabilities
from app.policy.grants import SessionApproval
from app.policy.taint import Trust

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from app.log.records import ApprovalRecord
    from app.service.approvals.decisions import Effective
    from app.service.caller import Caller
    from app.service.ports.database import Transaction
    from app.trust.decision import VerifiedDecision


@dataclass(frozen=True, slots=True)
class Outcome:
    """A decision that passed every check, on a pending approval."""

    approval: ApprovalRecord
    caller: Caller
    signed: VerifiedDecision
    effective: Effective

    @property
    def status(self) -> str:
        """What the approval becomes: one denial decides, approvals are collected."""
        if not self._approves:
            return "denied"
        return "approved" if len(self._agreeing) >= self._needed else "pending"

    async def events(self, tx: Transaction) -> list[NewEvent]:
        """The decision; what it settles; which other calls a session approval covers."""
        payload, approval = self.signed.payload, self.approval
        decided = ApprovalDecided(
            approval_id=approval.id,
            call_id=approval.call_id,
            decision=payload.decision,
            approver=payload.approver,
            caller=self.caller.principal,
            assurance=self.signed.assurance,
            key_id=self.signed.kid,
            scope=payload.scope,
            covered_capabilities=payload.covered_capabilities,
            edited=self._approves and self.effective.edited,
            effective_args_sha256=self._effective_sha256,
            collected=len(self._agreeing) if self._approves else 1,
            needed=self._needed,
            signed=True,
        )
        events = [
            NewEvent(
                decided,
                run_id=approval.run_id,
                trust=Trust.TRUSTED_USER,
                private=self.signed.evidence,
            )
        ]
        if self.status != "pending":
            events.append(resolved(approval, self.status, by="decision"))
        if self.status == "approved" and set(self._agreeing.values()) == {"session"}:
            events += await _covered_siblings(tx, approval, payload.covered_capabilities)
        return events

    def approval_after(self, at: datetime) -> ApprovalRecord:
        """The approval once the events of that time are appended."""
        status: Any = self.status
        is_over = status != "pending"
        return replace(
            self.approval,
            status=status,
            resolved_at=at if is_over else None,
            resolved_by="decision" if is_over else None,
            effective_args=self.effective.canonical if self._approves else None,
            effective_args_sha256=self._effective_sha256,
            decisions=(*self.approval.decisions, self._record(at)),
        )

    def _record(self, at: datetime) -> DecisionRecord:
        payload = self.signed.payload
        return DecisionRecord(
            approval_id=self.approval.id,
            decision=payload.decision,
            approver=payload.approver,
            caller=self.caller.principal,
            assurance=self.signed.assurance,
            key_id=self.signed.kid,
            scope=payload.scope,
            covered_capabilities=payload.covered_capabilities,
            override_args=payload.override_args,
            note=payload.note,
            reason=payload.reason,
            sandbox_mode=payload.sandbox_mode,
            payload_sha256=sha256_hex(self.signed.payload_bytes),
            effective_args_sha256=self._effective_sha256,
            signed=self.signed.evidence,
            at=at,
        )

    @property
    def _approves(self) -> bool:
        return self.signed.payload.decision == "approve"

    @property
    def _effective_sha256(self) -> str | None:
        return self.effective.sha256 if self._approves else None

    @property
    def _needed(self) -> int:
        needed: int = self.approval.card["required"]["count"]
        return needed

    @property
    def _agreeing(self) -> Mapping[str, str]:
        """The scope that each approver of these effective arguments gave, this one's with them."""
        payload = self.signed.payload
        return {
            one.approver: one.scope
            for one in self.approval.decisions
            if one.decision == "approve" and one.effective_args_sha256 == self.effective.sha256
        } | {payload.approver: payload.scope}


def resolved(
    approval: ApprovalRecord, status: str, *, by: str, covered_by: CoveredBy | None = None
) -> NewEvent:
    """The event that an approval left `pending`."""
    payload = ApprovalResolved.model_validate(
        {
            "approval_id": approval.id,
            "call_id": approval.call_id,
            "status": status,
            "by": by,
            "covered_by": covered_by,
        }
    )
    return NewEvent(payload, run_id=approval.run_id)


async def _covered_siblings(
    tx: Transaction, approval: ApprovalRecord, covered: tuple[str, ...]
) -> list[NewEvent]:
    """Other pending calls of the tool that the new session approval covers (turn.md 6.8)."""
    session = SessionApproval(parse_capabilities(covered), approval.id)
    by = CoveredBy(kind="session", id=approval.id)
    return [
        resolved(other, "approved", by="session", covered_by=by)
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
