"""The consents a turn may use: verified decisions of its run, and standing session approvals.

A decision is verified when it is taken and again here, from the stored bytes, each time a turn is
driven (turn.md 6.2): what it allows is read from the bytes that were signed and from no column
beside them. One that does not hold any more is not passed on: its call goes on waiting.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from app.policy.capability import parse_capabilities
from app.policy.grants import SessionApproval
from app.service.approvals.decisions import binding_of, effective_of, verified_under
from app.trust.decision import Malformed, binding_mismatch
from app.trust.passkey_decision import read_evidence
from app.turn.options import ApprovalDecision, ApprovalOverride

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from app.log.records import (
        ApprovalRecord,
        ConsentRecords,
        DecisionRecord,
        KeyRecord,
        PasskeyRecord,
        RunRecord,
    )
    from app.trust.decision import DecisionPayload
    from app.turn.ports import ToolExecutor

    Keys = Mapping[str, KeyRecord | PasskeyRecord]


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


def consents(run: RunRecord, given: ConsentRecords, executor: ToolExecutor) -> Consents:
    """The consents in force for the run's next turn, of those that were given."""
    standing: dict[str, SessionApproval] = {}
    keys: Keys = {**given.keys, **given.passkeys}
    outdated: set[str] = set()
    for session, approval in given.standing:
        if session.principal != run.principal or session.agent != run.agent:
            continue
        payload = _standing(run, approval, keys)
        if payload is None:
            continue
        if _defines(executor, payload.tool, payload.tool_definition_digest):
            covered = parse_capabilities(payload.covered_capabilities)
            standing[payload.tool] = SessionApproval(covered, payload.approval_id)
        else:
            outdated.add(payload.tool)
    return Consents(_decided(given, keys), standing, frozenset(outdated))


def _standing(run: RunRecord, approval: ApprovalRecord, keys: Keys) -> DecisionPayload | None:
    """The signed decision behind a standing consent, if it is one for this agent and principal.

    Of several approvers each must have given it: one cannot speak for the others.
    """
    if approval.principal != run.principal or approval.card["agent"] != run.agent:
        return None
    evidence = _evidence(approval, keys)
    lasts = evidence and all(
        one.decision == "approve" and one.scope == "session" for one in evidence
    )
    return evidence[-1] if lasts else None


def _decided(given: ConsentRecords, keys: Keys) -> dict[str, ApprovalDecision]:
    found: dict[str, ApprovalDecision] = {}
    for approval in given.approvals:
        if approval.status == "expired":
            found[approval.id] = _expired(approval)
        elif approval.resolved_by == "decision" and (evidence := _evidence(approval, keys)):
            found[approval.id] = _decision(approval, evidence)
    return found


def _defines(executor: ToolExecutor, tool: str, digest: str) -> bool:
    spec = executor.spec(tool)
    return spec is not None and spec.definition_digest == digest


def _evidence(approval: ApprovalRecord, keys: Keys) -> list[DecisionPayload]:
    """The signed payloads that settled the approval, the deciding one last; none if too few hold.

    Approvals add up for the same effective arguments alone; one denial decides (turn.md 6.6).
    """
    agreeing: dict[str, list[DecisionPayload]] = {}
    for record in approval.decisions:
        payload = _signed(approval, record, keys)
        if payload is None:
            continue
        if payload.decision == "deny":
            return [payload]
        group = agreeing.setdefault(effective_of(approval, payload.override_args).sha256, [])
        group.append(payload)
        if len({one.approver for one in group}) >= approval.card["required"]["count"]:
            return group
    return []


def _signed(approval: ApprovalRecord, record: DecisionRecord, keys: Keys) -> DecisionPayload | None:
    """What the stored bytes say, if their approver's key signed them about this approval."""
    read = read_evidence(record.signed)
    if isinstance(read, Malformed):
        return None
    # The column only picks the key: one that did not sign these bytes verifies nothing.
    key = keys.get(record.key_id)
    if key is None or key.principal != read.payload.approver:
        return None
    signed = verified_under(key, read)
    if signed is None or binding_mismatch(signed.payload, binding_of(approval)):
        return None
    return signed.payload


def _decision(approval: ApprovalRecord, evidence: list[DecisionPayload]) -> ApprovalDecision:
    """The decision as the signed payloads have it; no column is believed for it."""
    card, last = approval.card, evidence[-1]
    effective = effective_of(approval, last.override_args)
    edit = effective.canonical if effective.edited else ""
    notes = "\n\n".join(one.note for one in evidence if one.note)
    return ApprovalDecision(
        turn_id=last.turn_id,
        call_id=approval.call_id,
        approval_id=approval.id,
        request_id=last.request_id,
        tool_name=last.tool,
        args_json=card["args_canonical"],
        approved=last.decision == "approve",
        override=ApprovalOverride(edit, notes) if edit or notes else None,
        decided_by=tuple(one.approver for one in evidence),
        grant_scope=last.scope,
        covered=parse_capabilities(last.covered_capabilities),
        effective_sha256=effective.sha256,
        definition_digest=last.tool_definition_digest,
        reason=last.reason or "",
        # Of several approvers each must have relaxed it: one cannot speak for the others.
        sandbox_mode=last.sandbox_mode if all(one.sandbox_mode for one in evidence) else None,
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
