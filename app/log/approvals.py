"""Payloads about approvals, decisions, session approvals and questions."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from app.log.payload import CoveredBy, JsonObject, Payload, Shape, WorkerRef
from app.trust.grant import GrantConstraint

QuestionStatus = Literal["pending", "answered", "auto_resolved", "cancelled"]
QuestionOutcome = Literal["answered", "auto_resolved", "cancelled"]
ApprovalStatus = Literal["pending", "approved", "denied", "expired", "cancelled", "superseded"]


class Risk(Shape):
    """What an approver should look at first."""

    destination: str | None
    idempotent: bool
    session_allowed: bool
    outcome_unknown: bool
    sandbox_escalation: bool


class Required(Shape):
    """Whose answer counts, how many of them, and how firmly bound (turn.md 6.6).

    For a worker's call `also_roles`, where they differ, are the roles of the delegating agent: one
    of them is needed beside one of `roles`.
    """

    count: int
    assurance: Literal["channel", "key", "passkey"]
    roles: tuple[str, ...]
    allow_self: bool
    also_roles: tuple[str, ...] | None = Field(None, exclude_if=lambda roles: roles is None)


class GrantOffer(Shape):
    """A remembered grant that would have spared the question (F121).

    It is made of a call that was approved before, and carries no authority: its members are those
    of a grant that is about to be signed.
    """

    agent: str
    tool: str
    capabilities: tuple[str, ...]
    constraints: tuple[GrantConstraint, ...]
    expires_in_s: int


class ApprovalRequested(Payload):
    """One call waits for a person: the approval of service.md 5, without its decisions.

    Which programs may decide is no part of it and lies in the private column.
    """

    TYPE: ClassVar[str] = "approval.requested"

    id: str
    status: ApprovalStatus
    superseded_by: str | None = None
    run_id: str
    conversation_id: str
    turn_id: str
    request_id: str
    call_id: str
    agent: str
    tool: str
    title: str
    tool_definition_digest: str
    args: JsonObject
    args_canonical: str
    args_sha256: str
    reason: str
    required_capabilities: tuple[str, ...]
    missing_capabilities: tuple[str, ...]
    tainted_by: tuple[int, ...] = ()
    risk: Risk
    worker: WorkerRef | None = None
    requested_at: str
    expires_at: str | None
    resolved_at: str | None = None
    resolved_by: str | None = None
    required: Required
    effective_args: JsonObject | None = None
    effective_args_sha256: str | None = None
    grant_offer: GrantOffer | None = Field(None, exclude_if=lambda offer: offer is None)


class ApprovalDecided(Payload):
    """One person's verified answer; the exact signed bytes lie in the private column."""

    TYPE: ClassVar[str] = "approval.decided"

    approval_id: str
    call_id: str
    decision: Literal["approve", "deny"]
    approver: str
    caller: str
    assurance: Literal["channel", "key", "passkey"]
    key_id: str
    scope: Literal["once", "session"]
    covered_capabilities: tuple[str, ...]
    edited: bool
    effective_args_sha256: str | None
    collected: int
    needed: int
    signed: bool


class ApprovalResolved(Payload):
    """The approval left `pending`."""

    TYPE: ClassVar[str] = "approval.resolved"

    approval_id: str
    call_id: str
    status: ApprovalStatus
    by: Literal["decision", "session", "expiry", "cancel", "superseded"]
    covered_by: CoveredBy | None = None
    superseded_by: str | None = None


class DecisionRefused(Payload):
    """A decision that did not hold; the approval stays pending."""

    TYPE: ClassVar[str] = "decision.refused"

    approval_id: str
    code: str
    pointer: str | None
    caller: str


class SessionApprovalEnded(Payload):
    """A principal took back their standing consent to a tool."""

    TYPE: ClassVar[str] = "session_approval.ended"

    tool: str
    agent: str
    principal: str


class QuestionAsked(Payload):
    """The questions of one `ask_question` call (service.md 5).

    The call it is about, and who may answer it, lie in the private column.
    """

    TYPE: ClassVar[str] = "question.asked"

    id: str
    status: QuestionStatus
    run_id: str
    call_id: str
    questions: tuple[JsonObject, ...]
    asked_at: str
    expires_at: str | None


class QuestionAnswered(Payload):
    """Answers to questions of one `ask_question` call, or its end without any.

    The service's signed statement of what it was told lies in the private column.
    """

    TYPE: ClassVar[str] = "question.answered"

    question_id: str
    call_id: str
    answers: tuple[JsonObject, ...]
    outcome: QuestionOutcome
    answered_by: str | None
