"""Approvals and decisions on the wire (service.md 5)."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import orjson
from pydantic import Field, JsonValue, WithJsonSchema

from app.api.problems import Problem
from app.api.wire import Body, Document, SparseDocument, Time, time_or_none
from app.log.approvals import ApprovalStatus, GrantOffer, Required, Risk
from app.log.envelope import wire_time
from app.log.payload import WorkerRef
from app.log.records import ApprovalRecord, DecisionRecord, SessionApprovalRecord
from app.service.members import Name
from app.service.requests import DecisionDraft, DecisionScope, SignedPayload, Verdict
from app.trust.decision import DecisionPayload

Settled = Literal["decision", "session", "expiry", "cancel", "superseded"]

# A proof of any other type is judged with the decision, after the approval has been found.
DecisionJws = Annotated[
    JsonValue,
    WithJsonSchema(
        {"type": "string", "description": "Compact JWS over the canonical bytes, ES256"}
    ),
]
PasskeyProof = Annotated[
    JsonValue,
    WithJsonSchema({"type": "object", "description": "`canonical` and its WebAuthn `assertion`"}),
]


class DraftDecision(Body):
    """A decision that is to be signed."""

    decision: Verdict
    scope: DecisionScope = "once"
    override_args: dict[str, JsonValue] | None = None
    note: str | None = None
    reason: str | None = None
    sandbox_mode: Literal["relaxed"] | None = None

    def draft(self) -> DecisionDraft:
        """What the use case is asked for."""
        return DecisionDraft(
            decision=self.decision,
            scope=self.scope,
            override_args=self.override_args,
            note=self.note,
            reason=self.reason,
            sandbox_mode=self.sandbox_mode,
        )


class UnsignedDecision(Document):
    """The payload, and the exact text to sign."""

    payload: DecisionPayload
    canonical: str


class PasskeyOptions(Document):
    """The text that an assertion is to sign, and what the browser takes for it."""

    canonical: str
    options: dict[str, JsonValue]


class SignedDecision(Body):
    """A signed decision: exactly one of the two proofs."""

    decision_jws: DecisionJws = None
    passkey: PasskeyProof = None

    def proof(self) -> object:
        """The JWS as text, or a passkey's proof as an object; None unless it is exactly one."""
        given = self.model_fields_set & {"decision_jws", "passkey"}
        if given == {"decision_jws"} and isinstance(self.decision_jws, str):
            return self.decision_jws
        if given == {"passkey"} and isinstance(self.passkey, dict):
            return self.passkey
        return None


class BatchedDecision(SignedDecision):
    """One signed decision of a batch."""

    approval_id: Name


class DecideBatch(Body):
    """Signed decisions, each of which stands for itself."""

    decisions: Annotated[list[BatchedDecision], Field(min_length=1, max_length=100)]


class Decision(Document):
    """One person's answer, verified."""

    decision: Verdict
    approver: str
    caller: str
    assurance: Literal["channel", "key", "passkey"]
    key_id: str
    scope: DecisionScope
    override_args: str | None
    note: str | None
    reason: str | None
    at: Time
    signed: bool


class Approval(Document):
    """The request for an answer on exactly one tool call."""

    id: str
    status: ApprovalStatus
    superseded_by: str | None
    run_id: str
    conversation_id: str
    turn_id: str
    request_id: str
    call_id: str
    agent: str
    tool: str
    title: str
    tool_definition_digest: str
    args: dict[str, JsonValue]
    args_canonical: str
    args_sha256: str
    reason: str
    required_capabilities: list[str]
    missing_capabilities: list[str]
    tainted_by: list[int]
    risk: Risk
    worker: WorkerRef | None
    requested_at: Time
    expires_at: Time | None
    resolved_at: Time | None
    resolved_by: Settled | None
    required: Required
    decisions: list[Decision]
    effective_args: dict[str, JsonValue] | None
    effective_args_sha256: str | None
    grant_offer: GrantOffer | None = Field(None, exclude_if=lambda offer: offer is None)


class ApprovalList(Document):
    """A page of approvals, newest first."""

    items: list[Approval]
    next_cursor: str | None


class DecisionResult(Document):
    """The approval, and whether this decision changed it."""

    approval: Approval
    persisted: bool


class BatchResult(SparseDocument):
    """What became of one decision of a batch; `status` is the one HTTP would have."""

    approval_id: str
    status: int
    approval: Approval | None = None
    persisted: bool | None = None
    problem: Problem | None = None


class BatchResults(Document):
    """One result for each decision, in the order sent."""

    results: list[BatchResult]


class SessionApproval(Document):
    """A standing consent of one principal to one agent's tool."""

    agent: str
    tool: str
    principal: str
    covered_capabilities: list[str]
    tool_definition_digest: str
    approval_id: str
    at: Time


class SessionApprovalList(Document):
    """The standing consents of a conversation, newest first."""

    items: list[SessionApproval]
    next_cursor: str | None


_FROM_CARD = frozenset(Approval.model_fields)


def approval_document(approval: ApprovalRecord) -> Approval:
    """How an approval is shown: its card, never cut, with what happened since."""
    members: dict[str, Any] = {
        name: value for name, value in approval.card.items() if name in _FROM_CARD
    }
    effective = approval.effective_args
    members |= {
        "status": approval.status,
        "superseded_by": approval.superseded_by,
        "resolved_at": time_or_none(approval.resolved_at),
        "resolved_by": approval.resolved_by,
        "decisions": [_decision_document(decision) for decision in approval.decisions],
        "effective_args": None if effective is None else orjson.loads(effective),
        "effective_args_sha256": approval.effective_args_sha256,
    }
    return Approval(**members)


def _decision_document(decision: DecisionRecord) -> Decision:
    """How a decision is shown: without the bytes that prove it."""
    return Decision(
        decision=decision.decision,
        approver=decision.approver,
        caller=decision.caller,
        assurance=decision.assurance,
        key_id=decision.key_id,
        scope=decision.scope,
        override_args=decision.override_args,
        note=decision.note,
        reason=decision.reason,
        at=wire_time(decision.at),
        signed=bool(decision.signed),
    )


def unsigned_document(signed: SignedPayload) -> UnsignedDecision:
    """What a person is to sign."""
    return UnsignedDecision(
        payload=DecisionPayload.model_validate_json(signed.canonical), canonical=signed.canonical
    )


def session_approval_document(consent: SessionApprovalRecord) -> SessionApproval:
    """How a standing consent is shown."""
    return SessionApproval(
        agent=consent.agent,
        tool=consent.tool,
        principal=consent.principal,
        covered_capabilities=list(consent.covered_capabilities),
        tool_definition_digest=consent.tool_definition_digest,
        approval_id=consent.approval_id,
        at=wire_time(consent.at),
    )
