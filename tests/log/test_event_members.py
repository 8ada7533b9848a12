"""The members of `data`, type by type, as the table of service.md 6 has them."""

from __future__ import annotations

import pytest

from app.log.catalogue import PAYLOADS
from app.log.payload import WorkerPayload

APPROVAL = """
    id status superseded_by run_id conversation_id turn_id request_id call_id agent tool title
    tool_definition_digest args args_canonical args_sha256 reason required_capabilities
    missing_capabilities tainted_by risk worker requested_at expires_at resolved_at resolved_by
    required effective_args effective_args_sha256
"""

TABLE = {
    "run.created": "agent agent_digest principal unattended max_steps attachments metadata",
    "conversation.created": "principal participants",
    "message.user": "message_id content principal",
    "run.started": "attempt worker",
    "run.resumed": "attempt worker approvals questions",
    "step.started": "attempt granted tainted native_search",
    "step.discarded": "attempt reason",
    "text.delta": "text",
    "reasoning.delta": "text",
    "message.assistant": "message_id usage stop content",
    "call.gated": "call_id tool outcome rule missing reason covered_by",
    "approval.requested": APPROVAL,
    "approval.decided": """
        approval_id call_id decision approver caller assurance key_id scope covered_capabilities
        edited effective_args_sha256 collected needed signed
    """,
    "approval.resolved": "approval_id call_id status by covered_by",
    "decision.refused": "approval_id code pointer caller",
    "question.asked": "id status run_id call_id questions asked_at expires_at",
    "question.answered": "question_id call_id answers outcome answered_by",
    "run.paused": "approvals questions",
    "tool.started": "call_id request_id tool args_sha256 idempotency_key attempt covered_by",
    "tool.completed": "call_id tool result truncated artifact_id duration_ms",
    "tool.failed": "call_id tool error code duration_ms",
    "tool.settled": "call_id tool result outcome",
    "step.completed": "calls usage",
    "policy.rechecked": "call_id tool reason",
    "call.denied_unattended": "call_id tool args_sha256 reason missing",
    "dispatch.mutated": "call_id tool kind original_sha256 rule",
    "retrieval.missed": "call_id tool offered",
    "delegate.started": "call_id agent task",
    "delegate.completed": "call_id agent succeeded error usage first_party tainted",
    "session_approval.ended": "tool agent principal",
    "grant.replayed": "call_id tool grant_ref coverage_hash cleared",
    "run.checkpointed": "engine_format sha256 size_bytes",
    "run.completed": "answer ended_by usage steps",
    "run.failed": "code message usage",
    "run.cancelled": "by reason",
}

# What a fold needs and the table leaves out; each has a default, as any later addition must.
MORE = {
    "conversation.created": {"title", "metadata"},
    "run.created": {"on_busy"},
    "approval.requested": {"grant_offer"},
    "approval.resolved": {"superseded_by"},
    "dispatch.mutated": {"mutated_sha256", "kid", "signature"},
}


@pytest.mark.parametrize("tag", TABLE)
def test_an_event_has_the_members_of_the_table(tag: str) -> None:
    model = PAYLOADS[tag]
    # Only a delegated worker's events name it, and any of its kind may come from one.
    members = set(model.model_fields) - ({"worker"} if issubclass(model, WorkerPayload) else set())
    assert members == set(TABLE[tag].split()) | MORE.get(tag, set())


@pytest.mark.parametrize("tag", MORE)
def test_what_the_table_leaves_out_has_a_default(tag: str) -> None:
    assert not any(PAYLOADS[tag].model_fields[name].is_required() for name in MORE[tag])
