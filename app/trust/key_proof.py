"""Statements about a new approver key: its holder's proof, and an older key's endorsement.

Both are the same object under types of their own, so neither passes for the other. The proof shows
that who registers a key holds it; the endorsement, that a stolen token alone enrols none
(service.md 5).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from pydantic import BaseModel, ConfigDict

from app.trust.documents import SKEW_S, UnixSeconds, read_model
from app.trust.jose import CompactJws, read_signed, verify_jws
from app.trust.refusal import Refused, UnknownKey

if TYPE_CHECKING:
    from collections.abc import Mapping

    from app.trust.keys import P256Key

PROOF_TYPE: Final = "turngate-key-proof+jws"
ENDORSEMENT_TYPE: Final = "turngate-key-endorsement+jws"
STATEMENT_BYTES: Final = 8 * 1024
LIFETIME_S: Final = 600

_Kind = Literal["turngate.key-proof", "turngate.key-endorsement"]


@dataclass(frozen=True, slots=True)
class Enrolment:
    """The key that `sub` of `tenant` wants to register, by its thumbprint."""

    tenant: str
    sub: str
    thumbprint: str


class KeyStatement(BaseModel):
    """What is signed about an enrolment; times in unix seconds."""

    model_config = ConfigDict(strict=True, frozen=True, extra="forbid")

    typ: _Kind
    tenant: str
    sub: str
    thumbprint: str
    iat: UnixSeconds
    exp: UnixSeconds


@dataclass(frozen=True, slots=True)
class VerifiedStatement:
    """A statement that the key `kid` signed and that is about the enrolment at hand."""

    kid: str
    statement: KeyStatement


def verify_key_proof(
    text: str, *, key: P256Key, enrolment: Enrolment, now: int
) -> VerifiedStatement | Refused:
    """The proof that whoever sent the new `key` can sign with it."""
    token = read_signed(text, typ=PROOF_TYPE, max_bytes=STATEMENT_BYTES)
    if isinstance(token, Refused):
        return token
    if token.header.kid != enrolment.thumbprint or key.thumbprint() != enrolment.thumbprint:
        return Refused("kid must be the thumbprint of the new key")
    return _verify(token, key, "turngate.key-proof", enrolment, now)


def verify_endorsement(
    text: str, *, active: Mapping[str, P256Key], enrolment: Enrolment, now: int
) -> VerifiedStatement | Refused:
    """The word of one of the principal's `active` keys, by their ids, for the new one."""
    token = read_signed(text, typ=ENDORSEMENT_TYPE, max_bytes=STATEMENT_BYTES)
    if isinstance(token, Refused):
        return token
    key = active.get(token.header.kid)
    if key is None:
        return UnknownKey("kid must be the id of an active key", token.header.kid)
    return _verify(token, key, "turngate.key-endorsement", enrolment, now)


def verify_endorsement_text(
    payload: bytes, *, enrolment: Enrolment, now: int
) -> KeyStatement | Refused:
    """The endorsement that `payload` spells; who signed these bytes is the caller's."""
    return _read(payload, "turngate.key-endorsement", enrolment, now)


def _verify(
    token: CompactJws, key: P256Key, kind: _Kind, enrolment: Enrolment, now: int
) -> VerifiedStatement | Refused:
    payload = verify_jws(token, key=key)
    if isinstance(payload, Refused):
        return payload
    statement = _read(payload, kind, enrolment, now)
    if isinstance(statement, Refused):
        return statement
    return VerifiedStatement(token.header.kid, statement)


def _read(payload: bytes, kind: _Kind, enrolment: Enrolment, now: int) -> KeyStatement | Refused:
    statement = read_model(KeyStatement, payload)
    if isinstance(statement, Refused):
        return statement
    return _mismatch(statement, kind, enrolment) or _untimely(statement, now) or statement


def _mismatch(statement: KeyStatement, kind: _Kind, enrolment: Enrolment) -> Refused | None:
    if statement.typ != kind:
        return Refused(f"typ must be {kind}")
    if Enrolment(statement.tenant, statement.sub, statement.thumbprint) != enrolment:
        return Refused("tenant, sub and thumbprint must be those of this enrolment")
    return None


def _untimely(statement: KeyStatement, now: int) -> Refused | None:
    if not 0 < statement.exp - statement.iat <= LIFETIME_S:
        return Refused(f"exp must be 1 to {LIFETIME_S} seconds after iat")
    if now > statement.exp:
        return Refused("the statement has expired")
    if statement.iat > now + SKEW_S:
        return Refused(f"iat must be at most {SKEW_S} seconds ahead")
    return None
