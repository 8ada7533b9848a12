"""What a client does: keys and compact JWS by `cryptography` alone, so wrong forms exist too."""

from __future__ import annotations

import json
from base64 import urlsafe_b64encode
from dataclasses import dataclass
from typing import Any

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

from app.trust.keys import P256Key


def b64(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode()


def compact(value: Any) -> bytes:
    """JSON as a client writes it whose values are all ASCII: sorted, without spaces."""
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def join(header: bytes | dict[str, Any], payload: bytes, signature: bytes) -> str:
    head = header if isinstance(header, bytes) else compact(header)
    return f"{b64(head)}.{b64(payload)}.{b64(signature)}"


@dataclass(frozen=True)
class Signer:
    """An EC key of a client; `secret` makes it repeatable."""

    private: ec.EllipticCurvePrivateKey

    @staticmethod
    def of(secret: int, curve: ec.EllipticCurve | None = None) -> Signer:
        return Signer(ec.derive_private_key(secret, curve or ec.SECP256R1()))

    @property
    def public(self) -> P256Key:
        return P256Key(self.private.public_key())

    @property
    def jwk(self) -> dict[str, str]:
        point = self.private.public_key().public_numbers()
        return {
            "kty": "EC",
            "crv": "P-256",
            "x": b64(point.x.to_bytes(32, "big")),
            "y": b64(point.y.to_bytes(32, "big")),
        }

    def der(self, data: bytes) -> bytes:
        digest = hashes.SHA384() if self.private.key_size == 384 else hashes.SHA256()
        return self.private.sign(data, ec.ECDSA(digest))

    def raw(self, data: bytes) -> bytes:
        size = self.private.key_size // 8
        r, s = decode_dss_signature(self.der(data))
        return r.to_bytes(size, "big") + s.to_bytes(size, "big")

    def jws(self, header: bytes | dict[str, Any], payload: bytes) -> str:
        return join(header, payload, self.raw(signing_input(header, payload)))


@dataclass(frozen=True)
class RsaSigner:
    """An RSA key of an issuer."""

    private: rsa.RSAPrivateKey

    @staticmethod
    def of_bits(bits: int) -> RsaSigner:
        return RsaSigner(rsa.generate_private_key(65537, bits))

    @property
    def jwk(self) -> dict[str, str]:
        numbers = self.private.public_key().public_numbers()
        modulus = numbers.n.to_bytes(self.private.key_size // 8, "big")
        return {"kty": "RSA", "n": b64(modulus), "e": b64(numbers.e.to_bytes(3, "big"))}

    def jws(self, header: dict[str, Any], payload: bytes) -> str:
        data = signing_input(header, payload)
        return join(header, payload, self.private.sign(data, padding.PKCS1v15(), hashes.SHA256()))


def signing_input(header: bytes | dict[str, Any], payload: bytes) -> bytes:
    return join(header, payload, b"").rstrip(".").encode()
