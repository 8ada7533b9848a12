"""What events about approvals, decisions and questions do to the projections."""

from __future__ import annotations

from base64 import b64encode
from typing import TYPE_CHECKING, Any

from app.log import approvals
from app.log.private import QuestionBinding, SignedDecision, decode_programs
from app.store.projections import kinds
from app.store.projections.changes import Change
from app.store.projections.fact import own_run
from app.store.texts import escape, escape_all, json_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from app.log.payload import Payload
    from app.store.projections.fact import Fact


def _approval_requested(fact: Fact, payload: approvals.ApprovalRequested) -> list[Change]:
    row = {
        "id": payload.id,
        "conversation_id": fact.event.conversation_id,
        "run_id": payload.run_id,
        "call_id": escape(payload.call_id),
        "agent": escape(payload.agent),
        "tool": escape(payload.tool),
        "title": escape(payload.title),
        "reason": escape(payload.reason),
        "roles": escape_all(payload.required.roles),
        "programs": escape_all(decode_programs(fact.event.private)),
        "status": payload.status,
        "card": json_text(payload.wire()),
        "tool_definition_digest": payload.tool_definition_digest,
        "args_canonical": escape(payload.args_canonical),
        "args_sha256": payload.args_sha256,
        "requested_seq": fact.event.seq,
        "expires_at": payload.expires_at,
    }
    return [
        Change(
            kinds.APPROVAL_REQUESTED,
            row,
            writes=f"approval:{payload.id}",
            marks=frozenset({f"pause:{payload.run_id}"}),
            reads=frozenset({f"created:{payload.run_id}"}),
        )
    ]


def _approval(fact: Fact, approval_id: str, **changed: Any) -> Change:
    row = {
        "id": approval_id,
        "conversation_id": fact.event.conversation_id,
        "status": None,
        "resolved_at": None,
        "resolved_by": None,
        "superseded_by": None,
        "override_args": None,
        "effective_args_sha256": None,
        "refusals": 0,
    }
    return Change(kinds.APPROVAL_CHANGED, row | changed, writes=f"approval:{approval_id}")


def _approval_decided(fact: Fact, payload: approvals.ApprovalDecided) -> list[Change]:
    if fact.event.private is None:
        raise ValueError(f"approval.decided at seq {fact.event.seq} has no signed document")
    document = SignedDecision.decode(fact.event.private)
    override = None if document.override_args is None else escape(document.override_args)
    row = {
        "conversation_id": fact.event.conversation_id,
        "approval_id": payload.approval_id,
        "approver": escape(payload.approver),
        "decision": payload.decision,
        "seq": fact.event.seq,
        "caller": escape(payload.caller),
        "assurance": payload.assurance,
        "key_id": escape(payload.key_id),
        "scope": payload.scope,
        "covered_capabilities": list(payload.covered_capabilities),
        "override_args": override,
        "note": None if document.note is None else escape(document.note),
        "reason": None if document.reason is None else escape(document.reason),
        "sandbox_mode": document.sandbox_mode,
        "payload_sha256": document.payload_sha256,
        "effective_args_sha256": payload.effective_args_sha256,
        "signed": b64encode(document.signed).decode(),
        "at": fact.at,
    }
    subject = f"decision:{payload.approval_id}/{row['approver']}/{payload.decision}"
    changes = [Change(kinds.DECIDED, row, writes=subject)]
    if _gives_session_approval(payload):
        changes.append(_session_given(fact, payload))
    if payload.decision == "approve":
        changes.append(
            _approval(
                fact,
                payload.approval_id,
                override_args=override,
                effective_args_sha256=payload.effective_args_sha256,
            )
        )
    return changes


def _gives_session_approval(payload: approvals.ApprovalDecided) -> bool:
    """Whether this is the approval that settled it, and for the session (turn.md 6.8)."""
    approves = payload.decision == "approve" and payload.collected >= payload.needed
    return approves and payload.scope == "session"


def _session_given(fact: Fact, payload: approvals.ApprovalDecided) -> Change:
    row = {
        "approval_id": payload.approval_id,
        "conversation_id": fact.event.conversation_id,
        "covered_capabilities": list(payload.covered_capabilities),
        "effective_args_sha256": payload.effective_args_sha256,
        "at": fact.at,
    }
    subject = f"sessions:{fact.event.conversation_id}"
    reads = frozenset({f"approval:{payload.approval_id}"})
    return Change(kinds.SESSION_GIVEN, row, writes=subject, reads=reads)


def _approval_resolved(fact: Fact, payload: approvals.ApprovalResolved) -> list[Change]:
    approval_id = payload.approval_id
    return [
        _approval(
            fact,
            approval_id,
            status=payload.status,
            resolved_at=fact.at,
            resolved_by=payload.by,
            superseded_by=payload.superseded_by,
        ),
        _pause_settled(fact, settled=[approval_id]),
    ]


def _pause_settled(fact: Fact, *, settled: list[str], after: str | None = None) -> Change:
    """The pause may be over: `settled` are settled beside this, `after` must be written before."""
    run_id = own_run(fact)
    row = {"id": run_id, "conversation_id": fact.event.conversation_id, "settled": settled}
    reads = frozenset({f"pause:{run_id}"} if after is None else {f"pause:{run_id}", after})
    return Change(kinds.PAUSE_SETTLED, row, writes=f"run:{run_id}", reads=reads)


def _decision_refused(fact: Fact, payload: approvals.DecisionRefused) -> list[Change]:
    return [_approval(fact, payload.approval_id, refusals=1)]


def _session_approval_ended(fact: Fact, payload: approvals.SessionApprovalEnded) -> list[Change]:
    row = {
        "conversation_id": fact.event.conversation_id,
        "principal": escape(payload.principal),
        "agent": escape(payload.agent),
        "tool": escape(payload.tool),
    }
    return [Change(kinds.SESSION_ENDED, row, writes=f"sessions:{fact.event.conversation_id}")]


def _question_asked(fact: Fact, payload: approvals.QuestionAsked) -> list[Change]:
    binding = QuestionBinding.decode(fact.event.private)
    row = {
        "id": payload.id,
        "conversation_id": fact.event.conversation_id,
        "run_id": payload.run_id,
        "call_id": escape(payload.call_id),
        "status": payload.status,
        "card": json_text(payload.wire()),
        "asked_seq": fact.event.seq,
        "asked_at": fact.at,
        "expires_at": payload.expires_at,
        "roles": escape_all(binding.roles),
        "programs": escape_all(binding.programs),
        "turn_id": escape(binding.turn_id),
        "args_sha256": binding.args_sha256,
    }
    return [
        Change(
            kinds.QUESTION_ASKED,
            row,
            writes=f"question:{payload.id}",
            marks=frozenset({f"pause:{payload.run_id}"}),
            reads=frozenset({f"created:{payload.run_id}"}),
        )
    ]


def _question_answered(fact: Fact, payload: approvals.QuestionAnswered) -> list[Change]:
    subject = f"question:{payload.question_id}"
    row = {
        "id": payload.question_id,
        "conversation_id": fact.event.conversation_id,
        "outcome": payload.outcome,
        "answers": json_text(
            [answer | {"answered_by": payload.answered_by} for answer in payload.answers]
        ),
    }
    return [
        Change(kinds.QUESTION_ANSWERED, row, writes=subject),
        # Whether that was the last of its questions is known when the row has been written.
        _pause_settled(fact, settled=[], after=subject),
    ]


RULES: dict[type[Payload], Callable[[Fact, Any], list[Change]]] = {
    approvals.ApprovalRequested: _approval_requested,
    approvals.ApprovalDecided: _approval_decided,
    approvals.ApprovalResolved: _approval_resolved,
    approvals.DecisionRefused: _decision_refused,
    approvals.SessionApprovalEnded: _session_approval_ended,
    approvals.QuestionAsked: _question_asked,
    approvals.QuestionAnswered: _question_answered,
}
