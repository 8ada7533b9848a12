"""Seals: the service's signature over a stretch of a log, by the hash of its last event.

The chain shows that a log hangs together; a seal shows that it is the one the service wrote. The
signed text is rebuilt from the fields of `log.sealed`, so an event holds the signature alone.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from app.trust.statement import StatementKind, sign_statement, signature_of, verify_signature

if TYPE_CHECKING:
    from collections.abc import Mapping

    from app.trust.keys import P256Key, SigningKey
    from app.trust.refusal import Refused


@dataclass(frozen=True, slots=True)
class Seal:
    """`count` events from `from_seq` to `through_seq`, the last of which has the hash `root`."""

    conversation_id: str
    from_seq: int
    through_seq: int
    count: int
    root: str


def sign_seal(seal: Seal, *, key: SigningKey, kid: str) -> str:
    """The seal's signature: base64url of 64 bytes."""
    return signature_of(sign_statement(StatementKind.SEAL, asdict(seal), key=key, kid=kid))


def verify_seal(
    seal: Seal, *, signature: str, kid: str, keys: Mapping[str, P256Key]
) -> Refused | None:
    """Why `signature` is not the one that the key `kid` made of that seal."""
    return verify_signature(
        StatementKind.SEAL, asdict(seal), signature=signature, kid=kid, keys=keys
    )
