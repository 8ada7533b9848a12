"""What the projections hold, as the rest of the house reads it: one frozen record per noun.

Times are aware datetimes in UTC; JSON members are parsed. A record is a value, never a live row.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from app.log.approvals import QuestionStatus
    from app.log.payload import UsageTotals

RunStatus = Literal["queued", "running", "paused", "completed", "failed", "cancelled"]
ENDED: frozenset[RunStatus] = frozenset({"completed", "failed", "cancelled"})


@dataclass(frozen=True, slots=True)
class ConversationRecord:
    """A log's partition and its people; `active_run_id` has started and has not ended."""

    id: str
    tenant: str
    principal: str
    participants: tuple[str, ...]
    title: str | None
    metadata: dict[str, Any]
    head_seq: int
    tainted: bool
    active_run_id: str | None
    created_at: datetime


@dataclass(frozen=True, slots=True)
class RunRecord:
    """A run as folded from its events; `head_seq` is that of the run's latest event."""

    id: str
    tenant: str
    conversation_id: str
    agent: str
    agent_digest: str
    principal: str
    status: RunStatus
    answer: dict[str, Any] | None
    error: dict[str, Any] | None
    usage: UsageTotals
    steps: int
    tainted: bool
    unattended: bool
    max_steps: int | None
    attempts: int
    head_seq: int
    created_seq: int
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    metadata: dict[str, Any]
    pending_approvals: tuple[PendingApprovalItem, ...] = ()
    pending_questions: tuple[PendingQuestionItem, ...] = ()

    @property
    def is_ended(self) -> bool:
        """Whether the status is terminal."""
        return self.status in ENDED


@dataclass(frozen=True, slots=True)
class PendingApprovalItem:
    """One line of a run's pause."""

    id: str
    call_id: str
    tool: str
    title: str
    reason: str
    expires_at: datetime | None


@dataclass(frozen=True, slots=True)
class PendingQuestionItem:
    """One question call of a run's pause."""

    id: str
    call_id: str
    expires_at: datetime | None


@dataclass(frozen=True, slots=True)
class DecisionRecord:
    """A verified decision with its exact signed bytes (compact JWS or passkey document)."""

    approval_id: str
    decision: Literal["approve", "deny"]
    approver: str
    caller: str
    assurance: Literal["channel", "key", "passkey"]
    key_id: str
    scope: Literal["once", "session"]
    covered_capabilities: tuple[str, ...]
    override_args: str | None
    note: str | None
    reason: str | None
    sandbox_mode: str | None
    payload_sha256: str
    effective_args_sha256: str | None
    signed: bytes
    at: datetime


@dataclass(frozen=True, slots=True)
class ApprovalRecord:
    """An approval: `card` is the data of its `approval.requested`, the rest what happened since."""

    id: str
    tenant: str
    conversation_id: str
    run_id: str
    call_id: str
    principal: str
    status: Literal["pending", "approved", "denied", "expired", "cancelled", "superseded"]
    card: dict[str, Any]
    requested_seq: int
    expires_at: datetime | None
    resolved_at: datetime | None
    resolved_by: str | None
    superseded_by: str | None
    effective_args: str | None
    effective_args_sha256: str | None
    refusals: int
    programs: tuple[str, ...] = ()
    decisions: tuple[DecisionRecord, ...] = ()


@dataclass(frozen=True, slots=True)
class QuestionRecord:
    """The questions of one call: `card` is the data of their `question.asked`.

    `answers` are those given so far, each with who gave it. The turn that emitted the call and the
    digest of its arguments are what an answer is bound to.
    """

    id: str
    tenant: str
    conversation_id: str
    run_id: str
    call_id: str
    principal: str
    status: QuestionStatus
    card: dict[str, Any]
    expires_at: datetime | None
    turn_id: str
    args_sha256: str
    roles: tuple[str, ...] = ()
    programs: tuple[str, ...] = ()
    answers: tuple[dict[str, Any], ...] = ()


@dataclass(frozen=True, slots=True)
class SessionApprovalRecord:
    """A standing consent of one principal to one agent's tool, in one conversation."""

    conversation_id: str
    principal: str
    agent: str
    tool: str
    covered_capabilities: tuple[str, ...]
    tool_definition_digest: str
    approval_id: str
    at: datetime


@dataclass(frozen=True, slots=True)
class ConsentRecords:
    """What people said that a run's next turn may use, none of it verified.

    `approvals` are the run's own; `standing` the session approvals of its conversation, each with
    the approval that it came from; `keys` and `passkeys` those that the decisions name, by id.
    """

    approvals: tuple[ApprovalRecord, ...] = ()
    standing: tuple[tuple[SessionApprovalRecord, ApprovalRecord], ...] = ()
    keys: Mapping[str, KeyRecord] = field(default_factory=dict)
    passkeys: Mapping[str, PasskeyRecord] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DecisionClaims:
    """What a posted decision says of itself, before any of it is verified.

    It names its key by id, or its passkey by thumbprint, and uses a nonce for one payload.
    """

    key_id: str | None = None
    passkey: str | None = None
    nonce: str | None = None
    payload_sha256: str | None = None


@dataclass(frozen=True, slots=True)
class LockedApproval:
    """An approval whose conversation is locked, with what it takes to decide it.

    `key` or `passkey` is the one that was claimed; `awaited` are the pending approvals and
    questions of its run, by id; `nonce_of` is the digest of the payload that has the nonce.
    """

    approval: ApprovalRecord
    conversation: ConversationRecord
    key: KeyRecord | None
    awaited: frozenset[str]
    passkey: PasskeyRecord | None = None
    nonce_of: str | None = None


@dataclass(frozen=True, slots=True)
class AgentRecord:
    """An agent as saved: `spec` is the full document of service.md 3, defaults filled in."""

    tenant: str
    name: str
    spec: dict[str, Any]
    digest: str
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class KeyRecord:
    """An approver's public key; a revoked one stays for the verification of old decisions."""

    id: str
    tenant: str
    principal: str
    thumbprint: str
    public_jwk: dict[str, str]
    label: str
    created_at: datetime
    revoked_at: datetime | None


@dataclass(frozen=True, slots=True)
class PasskeyRecord:
    """An approver's passkey; `thumbprint` is that of its credential id, `public_key` is COSE.

    A revoked one stays for the verification of old decisions.
    """

    id: str
    tenant: str
    principal: str
    thumbprint: str
    credential_id: bytes
    public_key: bytes
    rp_id: str
    sign_count: int
    label: str
    created_at: datetime
    revoked_at: datetime | None


@dataclass(frozen=True, slots=True)
class WorkspaceFile:
    """A file of a conversation's workspace, with the trust tag of what was written into it."""

    path: str
    content: bytes
    trust: int
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class FileEntry:
    """A file as listed; `path` is normalised and relative to the workspace."""

    path: str
    size_bytes: int


@dataclass(frozen=True, slots=True)
class StoredAnswer:
    """The first answer given under an idempotency key."""

    status: int
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""


@dataclass(frozen=True, slots=True)
class Lease:
    """The exclusive, numbered right to drive a conversation, with the run to be driven.

    `present` is the run's agent as it is now, if it still is; `tainted` says whether anything in
    the conversation's log taints.
    """

    tenant: str
    conversation_id: str
    generation: int
    run: RunRecord
    present: AgentRecord | None
    tainted: bool
