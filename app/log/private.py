"""What lies in the private column of an event, and how it is read back.

- `run.created`: the agent's snapshot, the JSON document of `AgentRecord.spec`.
- `message.assistant`: the engine's form of the reply (`app.turn.reply`).
- `run.checkpointed`: the AgentRun document.
- `approval.decided`: the evidence, the exact text of the signed decision.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

import orjson

from app.engine.arguments import sha256_hex
from app.log.approvals import ApprovalDecided
from app.log.records import DecisionRecord
from app.trust.decision import Malformed, read_decision

if TYPE_CHECKING:
    from app.log.envelope import Event


class BrokenEvidence(ValueError):
    """An `approval.decided` whose private column holds no decision: the log was altered."""


def decision_of(event: Event) -> DecisionRecord:
    """The decision that an `approval.decided` records. Raises BrokenEvidence."""
    decided = ApprovalDecided.model_validate(event.data)
    evidence = event.private or b""
    read = read_decision(evidence.decode(errors="replace"))
    if isinstance(read, Malformed):
        raise BrokenEvidence(f"event {event.seq} of {event.conversation_id!r}: {read.detail}")
    payload = read.payload
    return DecisionRecord(
        approval_id=decided.approval_id,
        decision=decided.decision,
        approver=decided.approver,
        caller=decided.caller,
        assurance=decided.assurance,
        key_id=decided.key_id,
        scope=decided.scope,
        covered_capabilities=decided.covered_capabilities,
        override_args=payload.override_args,
        note=payload.note,
        reason=payload.reason,
        sandbox_mode=payload.sandbox_mode,
        payload_sha256=sha256_hex(read.token.payload),
        effective_args_sha256=decided.effective_args_sha256,
        signed=evidence,
        at=datetime.fromisoformat(orjson.loads(event.body)["at"]),
    )
