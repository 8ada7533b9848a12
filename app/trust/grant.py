"""Remembered grants as their principal signs them: what one covers, and how it is taken back.

A principal consents, with a passkey, to one tool of one agent keeping named capabilities although
its context is tainted (turn.md 6.8). The platform cannot mint a grant: what it serves is what the
signed bytes say. Each text has a `typ` of its own, so neither passes for the other, or for a
decision. Times are unix seconds.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Annotated, Final, Generic, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, JsonValue

from app.engine.json.arguments import canonical_bytes, sha256_hex
from app.policy.constraints import Constraint, ConstraintOp
from app.trust import base64url
from app.trust.documents import SKEW_S, FirstVersion, Nonce, UnixSeconds, read_model, read_object
from app.trust.passkey import Passkey, PasskeyProof, read_proof, verify_proof
from app.trust.refusal import Refused

CEREMONY_S: Final = 600


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """What a grant is for, and all that it is for; `agent` is the routine, by its name.

    Where anything of it is other than it was signed, the grant does not serve.
    """

    tenant: str
    principal: str
    agent: str
    tool: str
    tool_definition_digest: str
    capabilities: tuple[str, ...]
    constraints: tuple[Constraint, ...] = ()

    @property
    def sha256(self) -> str:
        """The coverage hash. Raises ValueError where no JSON says that."""
        return sha256_hex(canonical_bytes(asdict(self)))


class GrantConstraint(BaseModel):
    """What the argument at `pointer` of a covered call must be."""

    model_config = ConfigDict(strict=True, frozen=True, extra="forbid")

    pointer: str
    op: ConstraintOp
    value: JsonValue

    def constraint(self) -> Constraint:
        """What a call is held against. Raises ValueError where it could never be judged."""
        return Constraint(self.pointer, self.op, self.value)


def _judgeable(constraint: GrantConstraint) -> GrantConstraint:
    constraint.constraint()
    return constraint


class _Signed(BaseModel):
    model_config = ConfigDict(strict=True, frozen=True, extra="forbid")

    v: FirstVersion
    tenant: str
    principal: str
    nonce: Nonce
    iat: UnixSeconds
    exp: UnixSeconds


class GrantPayload(_Signed):
    """What is signed to enrol a grant that serves until `expires_at`."""

    typ: Literal["turngate.grant"]
    agent: str
    tool: str
    tool_definition_digest: str
    capabilities: tuple[str, ...]
    constraints: tuple[Annotated[GrantConstraint, AfterValidator(_judgeable)], ...]
    expires_at: UnixSeconds

    @property
    def coverage(self) -> Coverage:
        """What the grant is for."""
        return Coverage(
            tenant=self.tenant,
            principal=self.principal,
            agent=self.agent,
            tool=self.tool,
            tool_definition_digest=self.tool_definition_digest,
            capabilities=self.capabilities,
            constraints=tuple(each.constraint() for each in self.constraints),
        )


class RevocationPayload(_Signed):
    """What is signed to take a grant back."""

    typ: Literal["turngate.grant-revocation"]
    grant_id: str
    coverage_hash: str


_P = TypeVar("_P", GrantPayload, RevocationPayload)


@dataclass(frozen=True, slots=True)
class Signable(Generic[_P]):
    """A payload of sound form with its assertion, which nobody has verified yet."""

    payload: _P
    proof: PasskeyProof


def build_grant(coverage: Coverage, *, expires_at: int, nonce: bytes, now: int) -> GrantPayload:
    """The payload that enrols a grant, to be signed within ten minutes."""
    fields = asdict(coverage) | {"expires_at": expires_at, "typ": "turngate.grant"}
    return GrantPayload.model_validate(fields | _ceremony(nonce, now))


def build_revocation(
    coverage: Coverage, grant_id: str, *, nonce: bytes, now: int
) -> RevocationPayload:
    """The payload that takes a grant back, to be signed within ten minutes."""
    fields = {
        "typ": "turngate.grant-revocation",
        "tenant": coverage.tenant,
        "principal": coverage.principal,
        "grant_id": grant_id,
        "coverage_hash": coverage.sha256,
    }
    return RevocationPayload.model_validate(fields | _ceremony(nonce, now))


def canonical_text(payload: GrantPayload | RevocationPayload) -> str:
    """The text to sign."""
    return canonical_bytes(payload.model_dump(mode="json")).decode()


def read_signed(model: type[_P], proof: object) -> Signable[_P] | Refused:
    """Everything about {`canonical`, `assertion`} that can be judged without the passkey."""
    read = read_proof(proof)
    if isinstance(read, Refused):
        return read
    payload = read_model(model, read.canonical)
    if isinstance(payload, Refused):
        return payload
    if not 0 < payload.exp - payload.iat <= CEREMONY_S:
        return Refused(f"exp must be 1 to {CEREMONY_S} seconds after iat")
    return Signable(payload, read)


def read_evidence(model: type[_P], evidence: bytes) -> Signable[_P] | Refused:
    """A signed payload from the bytes that were kept of it."""
    return read_signed(model, read_object(evidence))


def verify_grant(
    evidence: bytes, *, passkey: Passkey, coverage: Coverage, expires_at: int
) -> GrantPayload | Refused:
    """What was signed, if the evidence is the passkey's word for exactly that, until then."""
    read = read_evidence(GrantPayload, evidence)
    if isinstance(read, Refused):
        return read
    if (read.payload.coverage, read.payload.expires_at) != (coverage, expires_at):
        return Refused("the grant covers other than what was signed")
    return verify_proof(read.proof, passkey=passkey, origins=None) or read.payload


def verify_revocation(
    evidence: bytes, *, passkey: Passkey, coverage: Coverage, grant_id: str
) -> Refused | None:
    """Why the evidence is not the passkey's word that this grant is to end."""
    read = read_evidence(RevocationPayload, evidence)
    if isinstance(read, Refused):
        return read
    if pointer := revocation_mismatch(read.payload, coverage=coverage, grant_id=grant_id):
        return Refused(f"the signed {pointer} is not that of the grant")
    return verify_proof(read.proof, passkey=passkey, origins=None)


def revocation_mismatch(
    payload: RevocationPayload, *, coverage: Coverage, grant_id: str
) -> str | None:
    """The JSON pointer of the first field that does not belong to that grant, or None."""
    expected = {
        "tenant": coverage.tenant,
        "principal": coverage.principal,
        "grant_id": grant_id,
        "coverage_hash": coverage.sha256,
    }
    foreign = (name for name, value in expected.items() if getattr(payload, name) != value)
    return next((f"/{name}" for name in foreign), None)


def lapse(payload: GrantPayload | RevocationPayload, *, now: int) -> str | None:
    """Why the ceremony is out of its time at `now`, or None while it may be finished."""
    if now > payload.exp:
        return "the text to sign has expired"
    if payload.iat > now + SKEW_S:
        return f"iat must be at most {SKEW_S} seconds ahead"
    return None


def _ceremony(nonce: bytes, now: int) -> dict[str, object]:
    return {"v": 1, "nonce": base64url.encode(nonce), "iat": now, "exp": now + CEREMONY_S}
