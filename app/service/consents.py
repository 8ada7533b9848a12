"""The consents a turn may use: verified decisions of its run, and standing session approvals.

A decision is verified when it is taken and again here, from the stored bytes, each time a turn is
driven (turn.md 6.2). One that does not hold any more is not passed on: its call goes on waiting.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from app.policy.capability import parse_capabilities
from app.policy.grants import SessionApproval
from app.service.decisions import binding_of
from app.trust.decision import Malformed, binding_mismatch, read_decision, verify_decision
from app.trust.keys import read_public_jwk
from app.trust.refusal import Refused
from app.turn.options import ApprovalDecision, ApprovalOverride

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from app.log.records import ApprovalRecord, DecisionRecord, RunRecord
    from app.service.ports import Session
    from app.turn.ports import ToolExecutor


@dataclass(frozen=True, slots=True)
class Consents:
    """What people said about a run's calls: by approval id, in the order of the requests.

    `outdated` are the tools with a standing consent to another definition than they have now.
    """

    decided: Mapping[str, ApprovalDecision]
    standing: Mapping[str, SessionApproval]
    outdated: frozenset[str]

    def unused(self, open_approvals: Iterable[str]) -> Sequence[ApprovalDecision]:
        """The decisions on calls that are open and have not started since they were asked."""
        wanted = set(open_approvals)
        return tuple(
            decision for approval_id, decision in self.decided.items() if approval_id in wanted
        )


NO_CONSENTS: Final = Consents({}, {}, frozenset())


async def consents(
    session: Session, run: RunRecord, approvals: Iterable[ApprovalRecord], executor: ToolExecutor
) -> Consents:
    """The consents in force for the next turn of a run with these approvals."""
    standing: dict[str, SessionApproval] = {}
    outdated: set[str] = set()
    for given in await session.session_approvals(run.conversation_id):
        if given.principal != run.principal or given.agent != run.agent:
            continue
        if _defines(executor, given.tool, given.tool_definition_digest):
            covered = parse_capabilities(given.covered_capabilities)
            standing[given.tool] = SessionApproval(covered, given.approval_id)
        else:
            outdated.add(given.tool)
    decided = await _decided(session, approvals)
    return Consents(decided, standing, frozenset(outdated))


async def _decided(
    session: Session, approvals: Iterable[ApprovalRecord]
) -> dict[str, ApprovalDecision]:
    found: dict[str, ApprovalDecision] = {}
    for approval in approvals:
        if approval.status == "expired":
            found[approval.id] = _expired(approval)
        elif approval.resolved_by == "decision":
            evidence = await _evidence(session, approval)
            if evidence:
                found[approval.id] = _decision(approval, evidence)
    return found


def _defines(executor: ToolExecutor, tool: str, digest: str) -> bool:
    spec = executor.spec(tool)
    return spec is not None and spec.definition_digest == digest


async def _evidence(session: Session, approval: ApprovalRecord) -> list[DecisionRecord]:
    """The decisions that settled the approval, if they are enough and every one verifies."""
    verdict = "approve" if approval.status == "approved" else "deny"
    settling = [
        one
        for one in approval.decisions
        if one.decision == verdict
        and (verdict == "deny" or one.effective_args_sha256 == approval.effective_args_sha256)
    ]
    needed = approval.card["required"]["count"] if verdict == "approve" else 1
    if len({one.approver for one in settling}) < needed:
        return []
    for one in settling:
        if not await _holds(session, approval, one):
            return []
    return settling


async def _holds(session: Session, approval: ApprovalRecord, record: DecisionRecord) -> bool:
    read = read_decision(record.signed.decode(errors="replace"))
    key = await session.key(record.key_id)
    if isinstance(read, Malformed) or key is None or key.principal != read.payload.approver:
        return False
    public = read_public_jwk(key.public_jwk)
    signed = public if isinstance(public, Refused) else verify_decision(read, key=public)
    return not isinstance(signed, Refused) and (
        binding_mismatch(signed.payload, binding_of(approval)) is None
        and signed.payload.decision == record.decision
    )


def _decision(approval: ApprovalRecord, evidence: list[DecisionRecord]) -> ApprovalDecision:
    card, last = approval.card, evidence[-1]
    scope: Literal["once", "session"] = last.scope
    edit = approval.effective_args if approval.effective_args != card["args_canonical"] else None
    notes = "\n\n".join(one.note for one in evidence if one.note)
    return ApprovalDecision(
        turn_id=card["turn_id"],
        call_id=approval.call_id,
        approval_id=approval.id,
        request_id=card["request_id"],
        tool_name=card["tool"],
        args_json=card["args_canonical"],
        approved=approval.status == "approved",
        override=ApprovalOverride(edit or "", notes) if edit or notes else None,
        decided_by=tuple(one.approver for one in evidence),
        grant_scope=scope,
        covered=parse_capabilities(last.covered_capabilities),
        effective_sha256=approval.effective_args_sha256,
        definition_digest=card["tool_definition_digest"],
        reason=last.reason or "",
        sandbox_mode=last.sandbox_mode,
        outcome_unknown=card["risk"]["outcome_unknown"],
    )


def _expired(approval: ApprovalRecord) -> ApprovalDecision:
    card = approval.card
    return ApprovalDecision(
        turn_id=card["turn_id"],
        call_id=approval.call_id,
        approval_id=approval.id,
        request_id=card["request_id"],
        tool_name=card["tool"],
        args_json=card["args_canonical"],
        approved=False,
        expired=True,
        outcome_unknown=card["risk"]["outcome_unknown"],
    )
