"""The signed decision: its payload, how it is read, verified, bound to an approval, and timed.

A decision is one person's answer to exactly one tool call (turn.md 6.2, service.md 5). The checks
come in a fixed order, each its own function, because each has a code of its own: `read_decision`
(malformed), `verify_decision` (signature), `binding_mismatch` (binding), `lapse` (expired). Replay,
standing and state are the caller's.

A decision is identified by its payload, never by its token text: one payload can have more than one
valid signature. The payload is kept as the bytes that were signed.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Final, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, ValidationError

from app.engine.json.arguments import canonical_bytes
from app.trust import base64url
from app.trust.documents import (
    SKEW_S,
    FirstVersion,
    Nonce,
    UnixSeconds,
    first_problem,
    is_canonical,
)
from app.trust.jose import CompactJws, read_signed, verify_jws
from app.trust.refusal import Refused

if TYPE_CHECKING:
    from app.trust.keys import P256Key

Verdict = Literal["approve", "deny"]
Scope = Literal["once", "session"]

DECISION_TYPE: Final = "turngate-decision+jws"
DECISION_BYTES: Final = 1 << 20
LIFETIME_S: Final = 900
# A decision is read when it is posted, when it is stored, and by the turn that it lets go on. What
# is known of it stays known for the same bytes, and of its signature for the same bytes and key.
_KEPT_READINGS: Final = 32
TEXT_BYTES: Final = 4096
# Fields that must equal the approval's own, in the order in which a mismatch is reported.
_BOUND: Final = (
    "tenant",
    "approval_id",
    "run_id",
    "conversation_id",
    "turn_id",
    "request_id",
    "tool",
    "tool_definition_digest",
    "args_sha256",
)


def _short(text: str) -> str:
    if len(text.encode()) > TEXT_BYTES:
        raise ValueError(f"must be at most {TEXT_BYTES} bytes of UTF-8")
    return text


def _canonical(text: str) -> str:
    if not is_canonical(text.encode()):
        raise ValueError("must be canonical JSON (RFC 8785)")
    return text


_Text = Annotated[str, AfterValidator(_short)]


class DecisionPayload(BaseModel):
    """What is signed, field by field in the order of service.md 5; times in unix seconds."""

    model_config = ConfigDict(strict=True, frozen=True, extra="forbid")

    v: FirstVersion
    typ: Literal["turngate.decision"]
    tenant: str
    approval_id: str
    run_id: str
    conversation_id: str
    turn_id: str
    request_id: str
    tool: str
    tool_definition_digest: str
    args_sha256: str
    decision: Verdict
    override_args: Annotated[str, AfterValidator(_canonical)] | None
    note: _Text | None
    reason: _Text | None
    scope: Scope
    covered_capabilities: tuple[str, ...]
    sandbox_mode: Literal["relaxed"] | None
    approver: str
    nonce: Nonce
    iat: UnixSeconds
    exp: UnixSeconds


@dataclass(frozen=True, slots=True)
class Malformed:
    """No decision at all: what was expected, and the pointer of the field at fault if it is one."""

    detail: str
    pointer: str | None = None


@dataclass(frozen=True, slots=True)
class ReadDecision:
    """A decision of sound form whose signature nobody has checked yet."""

    token: CompactJws
    payload: DecisionPayload

    @property
    def kid(self) -> str:
        """The id of the key it claims to be signed with."""
        return self.token.header.kid

    @property
    def payload_bytes(self) -> bytes:
        """The bytes that are signed."""
        return self.token.payload


@dataclass(frozen=True, slots=True)
class VerifiedDecision:
    """A decision that the key or passkey `kid` signed; only what verified it builds one."""

    payload: DecisionPayload
    payload_bytes: bytes
    kid: str
    evidence: bytes
    """The exact bytes that prove it, to be stored and verified again."""
    assurance: Literal["key", "passkey"] = "key"


@dataclass(frozen=True, slots=True)
class ApprovalBinding:
    """The call that a decision must be about, as the log has it, and what that call allows."""

    tenant: str
    approval_id: str
    run_id: str
    conversation_id: str
    turn_id: str
    request_id: str
    tool: str
    tool_definition_digest: str
    args_sha256: str
    missing_capabilities: tuple[str, ...]
    session_allowed: bool
    sandbox_escalation: bool

    def covered(self, verdict: Verdict) -> tuple[str, ...]:
        """The capabilities that a decision on this call must name."""
        return tuple(sorted(self.missing_capabilities)) if verdict == "approve" else ()


@dataclass(frozen=True, slots=True)
class Choice:
    """What the approver chose; `override_args` is canonical text."""

    decision: Verdict
    scope: Scope = "once"
    override_args: str | None = None
    note: str | None = None
    reason: str | None = None
    sandbox_mode: Literal["relaxed"] | None = None


def build_payload(
    binding: ApprovalBinding, choice: Choice, *, approver: str, nonce: bytes, now: int
) -> DecisionPayload | Malformed:
    """The payload for `choice`, good for 15 minutes; `binding_mismatch` tells if it may be made."""
    fields = {
        "v": 1,
        "typ": "turngate.decision",
        **{name: getattr(binding, name) for name in _BOUND},
        **{name: getattr(choice, name) for name in Choice.__slots__},
        "covered_capabilities": binding.covered(choice.decision),
        "approver": approver,
        "nonce": base64url.encode(nonce),
        "iat": now,
        "exp": now + LIFETIME_S,
    }
    try:
        return DecisionPayload.model_validate(fields)
    except ValidationError as error:
        return _malformed(error)


def canonical_payload(payload: DecisionPayload) -> bytes:
    """The bytes to sign."""
    return canonical_bytes(payload.model_dump(mode="json"))


@lru_cache(_KEPT_READINGS)
def read_decision(text: str) -> ReadDecision | Malformed:
    """Everything about the posted `decision_jws` that can be judged without a key."""
    token = read_signed(text, typ=DECISION_TYPE, max_bytes=DECISION_BYTES)
    if isinstance(token, Refused):
        return Malformed(token.reason)
    payload = read_payload(token.payload)
    return payload if isinstance(payload, Malformed) else ReadDecision(token, payload)


def read_payload(data: bytes) -> DecisionPayload | Malformed:
    """The payload that `data` canonically spells."""
    if not is_canonical(data):
        return Malformed("the payload must be canonical JSON (RFC 8785)")
    try:
        payload = DecisionPayload.model_validate_json(data)
    except ValidationError as error:
        return _malformed(error)
    if not 0 < payload.exp - payload.iat <= LIFETIME_S:
        return Malformed(f"exp must be 1 to {LIFETIME_S} seconds after iat", "/exp")
    return payload


def verdict_mismatch(payload: DecisionPayload, verdict: Verdict) -> Malformed | None:
    """Whether the payload says other than the path it was posted to."""
    if payload.decision == verdict:
        return None
    return Malformed(f"decision must be {verdict}, as the path has it", "/decision")


@lru_cache(_KEPT_READINGS)
def verify_decision(read: ReadDecision, *, key: P256Key) -> VerifiedDecision | Refused:
    """The decision, once its signature holds under `key`, the one registered as `read.kid`."""
    signed = verify_jws(read.token, key=key)
    if isinstance(signed, Refused):
        return signed
    return VerifiedDecision(read.payload, signed, read.kid, read.token.text.encode())


def binding_mismatch(payload: DecisionPayload, binding: ApprovalBinding) -> str | None:
    """The JSON pointer of the first field that does not belong to that call, or None."""
    for name in _BOUND:
        if getattr(payload, name) != getattr(binding, name):
            return f"/{name}"
    approves = payload.decision == "approve"
    rules = {
        "/override_args": approves or payload.override_args is None,
        "/scope": payload.scope == "once" or (approves and binding.session_allowed),
        "/covered_capabilities": payload.covered_capabilities == binding.covered(payload.decision),
        "/sandbox_mode": payload.sandbox_mode is None or binding.sandbox_escalation,
    }
    return next((pointer for pointer, holds in rules.items() if not holds), None)


def lapse(payload: DecisionPayload, *, now: int) -> str | None:
    """Why the decision is out of its time at `now`, or None while it may be used."""
    if now > payload.exp:
        return "the decision has expired"
    if payload.iat > now + SKEW_S:
        return f"iat must be at most {SKEW_S} seconds ahead"
    return None


def _malformed(error: ValidationError) -> Malformed:
    pointer, problem = first_problem(error)
    return Malformed(problem, pointer)
