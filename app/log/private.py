"""What lies in the private column of an event, and how some of it is written and read back.

- `run.created`: the agent's snapshot, the JSON document of `AgentRecord.spec`.
- `context.assembled`: the blocks of the model's context (`app.service.context.assembly`).
- `message.user`: the JSON text of what the caller attached for the model to be shown, if anything.
- `message.assistant`: the engine's form of the reply (`app.turn.model.reply`).
- `run.checkpointed`: the AgentRun document.
- `delegate.started`: what the worker was given (`app.turn.execution.worker`).
- `approval.requested`: the reviewer programs that may decide, if there are any.
- `question.asked`: the call that it is about, and who may answer beside the run's principal.
- `question.answered`: the service's signed statement of what it was told; none of a cancelled one.
- `approval.decided`: the evidence, the exact text of the signed decision, and nothing beside it:
  whatever else is known of a decision is read from the bytes that were signed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import orjson

from app.engine.json.arguments import sha256_hex
from app.trust.decision import Malformed
from app.trust.passkey_decision import read_evidence

if TYPE_CHECKING:
    from collections.abc import Sequence


class BrokenEvidence(ValueError):
    """The evidence of a decision is no decision: the log was altered."""


@dataclass(frozen=True, slots=True)
class SignedDecision:
    """The exact bytes of a decision, and those of its fields that the event leaves out."""

    signed: bytes
    payload_sha256: str
    override_args: str | None = None
    note: str | None = None
    reason: str | None = None
    sandbox_mode: str | None = None

    @classmethod
    def decode(cls, evidence: bytes) -> SignedDecision:
        """What the evidence says; its signature is not looked at. Raises BrokenEvidence."""
        read = read_evidence(evidence)
        if isinstance(read, Malformed):
            raise BrokenEvidence(read.detail)
        payload = read.payload
        return cls(
            signed=evidence,
            payload_sha256=sha256_hex(read.payload_bytes),
            override_args=payload.override_args,
            note=payload.note,
            reason=payload.reason,
            sandbox_mode=payload.sandbox_mode,
        )


@dataclass(frozen=True, slots=True)
class QuestionBinding:
    """The call behind a question: the turn that emitted it, the digest of all its arguments.

    Of the people who may answer it, the run's principal is not named.
    """

    turn_id: str
    args_sha256: str
    roles: tuple[str, ...] = ()
    programs: tuple[str, ...] = ()

    def encode(self) -> bytes:
        """The private bytes of `question.asked`."""
        return orjson.dumps(self)

    @classmethod
    def decode(cls, private: bytes | None) -> QuestionBinding:
        """What was kept; a question without any is about no call and for nobody else."""
        if private is None:
            return cls("", "")
        kept = orjson.loads(private)
        people = {name: tuple(kept[name]) for name in ("roles", "programs")}
        return cls(kept["turn_id"], kept["args_sha256"], **people)


def encode_programs(programs: Sequence[str]) -> bytes | None:
    """What keeps the reviewer programs beside a request; nothing where there are none."""
    return orjson.dumps({"programs": list(programs)}) if programs else None


def decode_programs(private: bytes | None) -> tuple[str, ...]:
    """The reviewer programs beside a request."""
    return () if private is None else tuple(orjson.loads(private)["programs"])
