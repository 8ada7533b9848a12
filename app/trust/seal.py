"""Seals: the service's signature over a stretch of a log, by the hash of its last event.

The chain shows that a log hangs together; a seal shows that it is the one the service wrote. The
signed text is rebuilt from the fields of `log.sealed`, so an event holds the signature alone.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Final

from app.engine.arguments import canonical_bytes
from app.trust import base64url
from app.trust.jose import read_signed, sign_jws, verify_jws
from app.trust.refusal import Refused

if TYPE_CHECKING:
    from app.trust.keys import P256Key, SigningKey

SEAL_TYPE: Final = "turngate-seal+jws"
_SEAL_BYTES: Final = 8 * 1024


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
    return sign_jws(_payload(seal), key=key, kid=kid, typ=SEAL_TYPE).rpartition(".")[2]


def verify_seal(seal: Seal, *, signature: str, kid: str, key: P256Key) -> Refused | None:
    """Why `signature` is not the one that `key`, under the id `kid`, made of that seal."""
    try:
        header = canonical_bytes({"alg": "ES256", "kid": kid, "typ": SEAL_TYPE})
        parts = (base64url.encode(header), base64url.encode(_payload(seal)), signature)
    except ValueError:
        return Refused("the seal has no canonical form, so nobody can have signed it")
    token = read_signed(".".join(parts), typ=SEAL_TYPE, max_bytes=_SEAL_BYTES)
    if isinstance(token, Refused):
        return token
    verified = verify_jws(token, key=key)
    return verified if isinstance(verified, Refused) else None


def _payload(seal: Seal) -> bytes:
    return canonical_bytes({"typ": "turngate.seal", **asdict(seal)})
