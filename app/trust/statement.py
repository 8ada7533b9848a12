"""Statements: what the service itself signs, ES256 over one canonical object.

Each kind has a `typ` of its own, in the header and in the object, so none passes for another
(turn.md 6.2). Events that hold the signed fields anyway keep `kid` and signature alone; the signed
text is rebuilt from them.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from app.engine.json.arguments import canonical_bytes
from app.trust import base64url
from app.trust.documents import read_object
from app.trust.jose import read_signed, sign_jws, verify_jws
from app.trust.refusal import Refused, UnknownKey

if TYPE_CHECKING:
    from collections.abc import Mapping

    from app.trust.keys import P256Key, SigningKey

STATEMENT_BYTES: Final = 2 * 1024 * 1024


class StatementKind(StrEnum):
    """What a statement is about."""

    SEAL = "seal"
    DISPATCH_MUTATION = "dispatch-mutation"
    QUESTION_ANSWER = "question-answer"
    PASSKEY_CHALLENGE = "passkey-challenge"
    GRANT_SUSPENSION = "grant-suspension"

    @property
    def header_typ(self) -> str:
        """The `typ` of the JWS header."""
        return f"turngate-{self}+jws"


def sign_statement(
    kind: StatementKind, members: Mapping[str, Any], *, key: SigningKey, kid: str
) -> str:
    """A compact JWS over `members` and the kind. Raises ValueError where no JSON says that."""
    return sign_jws(_payload(kind, members), key=key, kid=kid, typ=kind.header_typ)


def verify_statement(
    kind: StatementKind, text: str, *, keys: Mapping[str, P256Key]
) -> dict[str, Any] | Refused:
    """The members of a statement of that kind, signed with the one of `keys` that it names.

    UnknownKey tells a key that is not among them.
    """
    token = read_signed(text, typ=kind.header_typ, max_bytes=STATEMENT_BYTES)
    if isinstance(token, Refused):
        return token
    key = keys.get(token.header.kid)
    if key is None:
        return UnknownKey("kid must be a key of the service", token.header.kid)
    payload = verify_jws(token, key=key)
    if isinstance(payload, Refused):
        return payload
    members = read_object(payload)
    if members is None or members.pop("typ", None) != f"turngate.{kind}":
        return Refused(f"the statement must be an object with the typ turngate.{kind}")
    return members


def signature_of(text: str) -> str:
    """The last part of a compact JWS: base64url of 64 bytes."""
    return text.rpartition(".")[2]


def verify_signature(
    kind: StatementKind,
    members: Mapping[str, Any],
    *,
    signature: str,
    kid: str,
    keys: Mapping[str, P256Key],
) -> Refused | None:
    """Why `signature` is not the one that the key `kid` made of exactly that statement."""
    try:
        header = canonical_bytes({"alg": "ES256", "kid": kid, "typ": kind.header_typ})
        parts = (base64url.encode(header), base64url.encode(_payload(kind, members)), signature)
    except ValueError:
        return Refused("the statement has no canonical form, so nobody can have signed it")
    verified = verify_statement(kind, ".".join(parts), keys=keys)
    return verified if isinstance(verified, Refused) else None


def _payload(kind: StatementKind, members: Mapping[str, Any]) -> bytes:
    return canonical_bytes({"typ": f"turngate.{kind}", **members})
