"""The fence around python-jose: its only importer (field-cases.md 10).

The rules:

* A token's form and header are read here, strictly, before the library sees it: ASCII, exactly
  three parts, one spelling of base64url, no member twice, no member that brings or points to a key.
* The key comes from our registry and was parsed by `cryptography`; its kind picks the one
  algorithm, which is written as a literal list at the call. The header only has to agree.
* Only JWS is called, never JWE. Nothing the library read without verifying is used.
* Whatever the library raises becomes one refusal.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, TypeGuard, assert_never

from jose import jws
from jose.backends.cryptography_backend import CryptographyECKey, CryptographyRSAKey

from app.trust import base64url
from app.trust.documents import read_object
from app.trust.keys import P256Key, PublicKey, RsaKey
from app.trust.refusal import Refused

if TYPE_CHECKING:
    from app.trust.keys import SigningKey

Algorithm = Literal["ES256", "RS256"]

# What an issuer of tokens may sign with, and what people and the service do.
PINNED: Final[tuple[Algorithm, ...]] = ("ES256", "RS256")
SIGNED: Final[tuple[Algorithm, ...]] = ("ES256",)
HEADER_BYTES: Final = 8 * 1024
SIGNATURE_BYTES: Final = 64
_SIGNED_MEMBERS: Final = frozenset({"alg", "typ", "kid"})
_FORBIDDEN: Final = frozenset({"crit", "b64", "jwk", "jku", "x5u", "x5c"})


@dataclass(frozen=True, slots=True)
class Header:
    """What an unverified token says about itself; `kid` only picks which key is tried."""

    alg: Algorithm
    kid: str
    typ: str | None
    members: frozenset[str]


@dataclass(frozen=True, slots=True)
class CompactJws:
    """A token of sound form. Its payload is not to be believed before `verify_jws`."""

    text: str
    header: Header
    payload: bytes
    signature: bytes


def read_jws(
    text: str, *, max_bytes: int, algorithms: tuple[Algorithm, ...] = PINNED
) -> CompactJws | Refused:
    """Split and check the form of a compact JWS of at most `max_bytes` bytes."""
    if len(text) > max_bytes:
        return Refused(f"the token must be at most {max_bytes} bytes")
    segments = text.split(".")
    if len(segments) != 3:
        return Refused("the token must have exactly three parts")
    head, payload, signature = map(base64url.decode, segments)
    if not head or not payload or not signature:
        return Refused("each part of the token must be unpadded base64url, and not empty")
    header = _read_header(head, algorithms)
    if isinstance(header, Refused):
        return header
    return CompactJws(text, header, payload, signature)


def read_signed(text: str, *, typ: str, max_bytes: int) -> CompactJws | Refused:
    """`read_jws` for what people and the service sign: ES256, and exactly `alg`, `typ`, `kid`."""
    token = read_jws(text, max_bytes=max_bytes, algorithms=SIGNED)
    if isinstance(token, Refused):
        return token
    if token.header.members != _SIGNED_MEMBERS:
        return Refused("the header must have exactly alg, typ and kid")
    if token.header.typ != typ:
        return Refused(f"typ must be {typ}")
    if len(token.signature) != SIGNATURE_BYTES:
        return Refused(f"the signature must be {SIGNATURE_BYTES} bytes, r then s")
    return token


def verify_jws(token: CompactJws, *, key: PublicKey) -> bytes | Refused:
    """The payload, once its signature holds under `key` with the algorithm of that key's kind."""
    if token.header.alg != key.algorithm:
        return Refused(f"the key of this kid serves {key.algorithm} alone")
    try:
        return _verify(token, key)
    except Exception:  # noqa: BLE001  Whatever the library raises is one refusal, never a 500.
        return Refused("the signature does not hold")


def sign_jws(payload: bytes, *, key: SigningKey, kid: str, typ: str) -> str:
    """An ES256 compact JWS over exactly `payload`, with exactly `alg`, `kid` and `typ`."""
    headers = {"kid": kid, "typ": typ}
    return jws.sign(payload, CryptographyECKey(key.material, "ES256"), headers, algorithm="ES256")


def _verify(token: CompactJws, key: PublicKey) -> bytes:
    match key:
        case P256Key(material):
            return jws.verify(
                token.text, CryptographyECKey(material, "ES256"), algorithms=["ES256"]
            )
        case RsaKey(material):
            return jws.verify(
                token.text, CryptographyRSAKey(material, "RS256"), algorithms=["RS256"]
            )
        case _:
            assert_never(key)


def _read_header(head: bytes, algorithms: tuple[Algorithm, ...]) -> Header | Refused:
    if len(head) > HEADER_BYTES:
        return Refused(f"the header must be at most {HEADER_BYTES} bytes")
    members = read_object(head)
    if members is None:
        return Refused("the header must be one JSON object with no member twice")
    if banned := sorted(_FORBIDDEN & members.keys()):
        return Refused(f"the header must not have {', '.join(banned)}")
    alg, kid, typ = members.get("alg"), members.get("kid"), members.get("typ")
    if not _is_among(alg, algorithms):
        return Refused(f"alg must be {' or '.join(algorithms)}")
    if not isinstance(kid, str):
        return Refused("kid must be present and text")
    if not isinstance(typ, str | None):
        return Refused("typ must be text")
    return Header(alg, kid, typ, frozenset(members))


def _is_among(alg: object, algorithms: tuple[Algorithm, ...]) -> TypeGuard[Algorithm]:
    return alg in algorithms
