"""Keys: parsed, type-checked and bounded by `cryptography` before anything uses them.

Two kinds exist. P-256 signs decisions, statements, seals and tokens (ES256); RSA signs access
tokens of an issuer that has nothing better (RS256). The kind fixes the algorithm: no header ever
chooses. What makes a key takes its chance as an argument.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, ClassVar, Final, Literal, TypeAlias

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from typing_extensions import override

from app.engine.json.arguments import canonical_bytes
from app.trust import base64url
from app.trust.documents import read_object
from app.trust.refusal import Refused

if TYPE_CHECKING:
    from collections.abc import Mapping

COORDINATE_BYTES: Final = 32
# 64 bits more than the order has, so that the remainder is even (FIPS 186-5 A.2.1).
CHANCE_BYTES: Final = 40
RSA_BITS: Final = range(2048, 8192 + 1)
_ORDER: Final = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551


@dataclass(frozen=True, slots=True)
class P256Key:
    """A public key on P-256."""

    algorithm: ClassVar[Literal["ES256"]] = "ES256"
    material: ec.EllipticCurvePublicKey

    @override
    def __hash__(self) -> int:
        """Equal for equal points: `material` is compared by its point, but has no hash."""
        point = self.material.public_numbers()
        return hash((point.x, point.y))

    def jwk(self) -> dict[str, str]:
        """The public JWK: exactly the members that RFC 7638 hashes, in its order."""
        point = self.material.public_numbers()
        x, y = (base64url.encode(n.to_bytes(COORDINATE_BYTES, "big")) for n in (point.x, point.y))
        return {"crv": "P-256", "kty": "EC", "x": x, "y": y}

    def thumbprint(self) -> str:
        """The RFC 7638 thumbprint: base64url of the SHA-256 of the canonical public JWK."""
        return base64url.encode(sha256(canonical_bytes({**self.jwk()})).digest())


@dataclass(frozen=True, slots=True)
class RsaKey:
    """A public RSA key of at least 2048 bits, for access tokens alone."""

    algorithm: ClassVar[Literal["RS256"]] = "RS256"
    material: rsa.RSAPublicKey


PublicKey: TypeAlias = P256Key | RsaKey


@dataclass(frozen=True, slots=True)
class SigningKey:
    """A private key of the service itself; no approver's ever comes here."""

    material: ec.EllipticCurvePrivateKey

    @property
    def public(self) -> P256Key:
        """The half that verifies."""
        return P256Key(self.material.public_key())

    def pem(self) -> bytes:
        """Unencrypted PKCS 8, for a file that only the service can read."""
        return self.material.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )


def derive_signing_key(chance: bytes) -> SigningKey:
    """The key that 40 bytes of `chance` stand for; equal chance gives an equal key."""
    if len(chance) != CHANCE_BYTES:
        raise ValueError(f"chance must be {CHANCE_BYTES} bytes, found {len(chance)}")
    secret = int.from_bytes(chance, "big") % (_ORDER - 1) + 1
    return SigningKey(ec.derive_private_key(secret, ec.SECP256R1()))


def read_signing_key(pem: bytes) -> SigningKey | Refused:
    """The P-256 private key in an unencrypted PEM."""
    try:
        material = serialization.load_pem_private_key(pem, password=None)
    except (ValueError, TypeError):
        return Refused("the private key is no unencrypted PEM")
    if isinstance(material, ec.EllipticCurvePrivateKey) and _is_p256(material.curve):
        return SigningKey(material)
    return Refused("the private key is not on P-256")


def read_public_jwk(jwk: Mapping[str, object]) -> P256Key | Refused:
    """The key of an approver: exactly `kty`, `crv`, `x`, `y`, and a point of the curve."""
    if jwk.keys() != {"kty", "crv", "x", "y"}:
        return Refused("the public JWK must have exactly kty, crv, x and y")
    return _read_ec(jwk)


def read_key_set(text: bytes) -> dict[str, PublicKey] | Refused:
    """The keys of a JWKS document by their id; keys of other kinds and uses are passed over.

    A set that gives one id to two keys is refused whole: a token would not say which one is meant.
    """
    document = read_object(text)
    if document is None or not isinstance(document.get("keys"), list):
        return Refused("the key set must be an object with a list of keys")
    found: dict[str, PublicKey] = {}
    for jwk in document["keys"]:
        key = _read_set_member(jwk)
        if isinstance(key, Refused):
            continue
        if jwk["kid"] in found:
            return Refused("the key set gives one kid to two keys")
        found[jwk["kid"]] = key
    return found


def _read_set_member(jwk: object) -> PublicKey | Refused:
    if not isinstance(jwk, dict) or not isinstance(jwk.get("kid"), str):
        return Refused("a key of a set must be an object with a kid")
    if jwk.get("use", "sig") != "sig" or "d" in jwk:
        return Refused("a key of a set must be public and for signatures")
    key = _read_rsa(jwk) if jwk.get("kty") == "RSA" else _read_ec(jwk)
    if isinstance(key, Refused) or jwk.get("alg", key.algorithm) == key.algorithm:
        return key
    return Refused(f"a key of its kind serves {key.algorithm} alone")


def _read_ec(jwk: Mapping[str, object]) -> P256Key | Refused:
    if jwk.get("kty") != "EC" or jwk.get("crv") != "P-256":
        return Refused("the key must be EC on P-256")
    x, y = _read_bytes(jwk.get("x")), _read_bytes(jwk.get("y"))
    if len(x) != COORDINATE_BYTES or len(y) != COORDINATE_BYTES:
        return Refused("x and y must be base64url of 32 bytes each")
    try:
        point = ec.EllipticCurvePublicNumbers(
            int.from_bytes(x, "big"), int.from_bytes(y, "big"), ec.SECP256R1()
        ).public_key()
    except ValueError:
        return Refused("x and y must be a point of P-256")
    return P256Key(point)


def _read_rsa(jwk: Mapping[str, object]) -> RsaKey | Refused:
    modulus = int.from_bytes(_read_bytes(jwk.get("n")), "big")
    exponent = int.from_bytes(_read_bytes(jwk.get("e")), "big")
    if modulus.bit_length() not in RSA_BITS:
        return Refused(f"an RSA key must have {RSA_BITS.start} to {RSA_BITS.stop - 1} bits")
    try:
        return RsaKey(rsa.RSAPublicNumbers(exponent, modulus).public_key())
    except ValueError:
        return Refused("n and e must make an RSA key")


def _read_bytes(member: object) -> bytes:
    return (base64url.decode(member) if isinstance(member, str) else None) or b""


def _is_p256(curve: ec.EllipticCurve) -> bool:
    return curve.name == ec.SECP256R1.name
