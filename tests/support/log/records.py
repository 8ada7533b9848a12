"""Records as the store would read them, with only what a test is about spelled out."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from app.log.payload import UsageTotals
from app.log.records import ApprovalRecord, ConversationRecord, Lease, RunRecord
from tests.support.stepped_clock import NOON


def run_record(**changes: Any) -> RunRecord:
    """A queued run of Alice's for the agent `courier`."""
    plain = RunRecord(
        id="run_1",
        tenant="acme",
        conversation_id="conv_1",
        agent="courier",
        agent_digest="d" * 64,
        principal="alice",
        status="queued",
        answer=None,
        error=None,
        usage=UsageTotals(),
        steps=0,
        tainted=False,
        unattended=False,
        max_steps=None,
        attempts=0,
        head_seq=3,
        created_seq=2,
        created_at=NOON,
        started_at=None,
        ended_at=None,
        metadata={},
    )
    return replace(plain, **changes)


def conversation_record(**changes: Any) -> ConversationRecord:
    """A conversation of Alice's, in which nobody else takes part."""
    plain = ConversationRecord(
        id="conv_1",
        tenant="acme",
        principal="alice",
        participants=(),
        title=None,
        metadata={},
        head_seq=3,
        tainted=False,
        active_run_id=None,
        created_at=NOON,
    )
    return replace(plain, **changes)


def lease(**changes: Any) -> Lease:
    """The lease on such a run."""
    return Lease("acme", "conv_1", 1, run_record(**changes), present=None, tainted=False)


CARD: dict[str, Any] = {
    "id": "appr_1",
    "turn_id": "turn_1",
    "request_id": "call_0_0",
    "agent": "courier",
    "tool": "http_post",
    "tool_definition_digest": "d" * 64,
    "args_canonical": '{"body":"{}","url":"http://a.example/"}',
    "args_sha256": "a" * 64,
    "missing_capabilities": [],
    "risk": {"session_allowed": False, "sandbox_escalation": False, "outcome_unknown": False},
    "required": {"count": 1, "assurance": "key", "roles": ["approver"], "allow_self": True},
}


def approval_record(*, card: dict[str, Any] | None = None, **changes: Any) -> ApprovalRecord:
    """A pending approval on a run of Alice's; `card` changes members of its card."""
    plain = ApprovalRecord(
        id="appr_1",
        tenant="acme",
        conversation_id="conv_1",
        run_id="run_1",
        call_id="call_1_1_0",
        principal="alice",
        status="pending",
        card=CARD | (card or {}),
        requested_seq=9,
        expires_at=None,
        resolved_at=None,
        resolved_by=None,
        superseded_by=None,
        effective_args=None,
        effective_args_sha256=None,
        refusals=0,
    )
    return replace(plain, **changes)
