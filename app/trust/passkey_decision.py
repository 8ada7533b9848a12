"""A decision made with a passkey: the same payload, and an assertion over its canonical bytes.

Whatever is stored of a decision, signed either way, is read back here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from app.trust.decision import (
    Malformed,
    ReadDecision,
    VerifiedDecision,
    read_decision,
    read_payload,
)
from app.trust.documents import read_object
from app.trust.passkey import read_proof, verify_proof
from app.trust.refusal import Refused

if TYPE_CHECKING:
    from collections.abc import Collection

    from app.trust.decision import DecisionPayload
    from app.trust.passkey import Passkey, PasskeyProof


@dataclass(frozen=True, slots=True)
class ReadPasskeyDecision:
    """A decision of sound form whose assertion nobody has verified yet."""

    proof: PasskeyProof
    payload: DecisionPayload

    @property
    def payload_bytes(self) -> bytes:
        """The bytes that are signed, by way of their digest."""
        return self.proof.canonical


AnyRead: TypeAlias = ReadDecision | ReadPasskeyDecision


def read_passkey_decision(proof: object) -> ReadPasskeyDecision | Malformed:
    """Everything about the posted `passkey` that can be judged without the passkey itself."""
    read = read_proof(proof)
    if isinstance(read, Refused):
        return Malformed(read.reason)
    payload = read_payload(read.canonical)
    return payload if isinstance(payload, Malformed) else ReadPasskeyDecision(read, payload)


def read_evidence(evidence: bytes) -> AnyRead | Malformed:
    """A decision from the bytes that prove it: a compact JWS, or a passkey's document."""
    if evidence.startswith(b"{"):
        return read_passkey_decision(read_object(evidence))
    return read_decision(evidence.decode(errors="replace"))


def verify_passkey_decision(
    read: ReadPasskeyDecision,
    *,
    passkey: Passkey,
    key_id: str,
    origins: Collection[str] | None = None,
) -> VerifiedDecision | Refused:
    """The decision, once its assertion holds under `passkey`, the one registered as `key_id`."""
    refused = verify_proof(read.proof, passkey=passkey, origins=origins)
    if refused is not None:
        return refused
    proof = read.proof
    return VerifiedDecision(read.payload, proof.canonical, key_id, proof.evidence, "passkey")
