"""Who appends events of which type; the tests of deaths hold both against what is appended.

A type that both append is told of in both places. A new type belongs to one of these, and to a
story of tests/api/request_stories.py or of tests/service/driving/test_killed_anywhere.py.
"""

from __future__ import annotations

from typing import Final

BY_REQUESTS: Final = {
    *("conversation.created", "conversation.updated", "run.created", "message.user"),
    *("approval.decided", "approval.resolved", "question.answered", "session_approval.ended"),
    *("run.cancelled", "tool.settled", "decision.refused", "log.sealed"),
    *("key.registered", "key.revoked", "passkey.registered", "passkey.revoked", "keys.reset"),
    *("grant.enrolled", "grant.revoked", "grant.suspended", "token.revoked"),
    *("agent.saved", "agent.deleted", "mcp.saved", "mcp.deleted"),
}
BY_WORKERS: Final = {
    *("run.started", "run.resumed", "run.paused", "run.checkpointed", "run.completed"),
    *("run.failed", "context.assembled", "attachment.resolved", "memory.written"),
    *("history.compacted", "step.started", "step.discarded", "step.completed", "text.delta"),
    *("reasoning.delta", "message.assistant", "call.gated", "policy.rechecked"),
    *("call.denied_unattended", "dispatch.mutated", "retrieval.missed", "approval.requested"),
    *("question.asked", "tool.started", "tool.completed", "tool.failed", "tool.answered_late"),
    *("delegate.started", "delegate.completed", "grant.replayed"),
}
