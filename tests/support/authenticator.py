"""A small software authenticator and the browser before it; it can be told to do wrong.

Everything is made from fixed secrets, so that what it says is the same each time but for ECDSA's
own chance. Members of the client's data and the flags of the authenticator are arguments.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

from webauthn.helpers import encode_cbor

from tests.trust.signer import Signer, b64

RP_ID = "turngate.test"
ORIGIN = "https://app.turngate.test"
UP, UV, AT = 0x01, 0x04, 0x40


@dataclass
class Authenticator:
    """One credential on P-256; `count` is its sign counter, None for one that has none."""

    signer: Signer
    count: int | None = 0
    rp_id: str = RP_ID
    origin: str = ORIGIN
    flags: int = UP | UV
    client: dict[str, Any] = field(default_factory=dict)
    """Members of the client's data that are to be other than they should."""

    @staticmethod
    def of(secret: int, **members: Any) -> Authenticator:
        return Authenticator(Signer.of(secret), **members)

    @property
    def credential_id(self) -> bytes:
        return sha256(b"credential" + self.cose()).digest()

    @property
    def thumbprint(self) -> str:
        return b64(sha256(self.credential_id).digest())

    def cose(self) -> bytes:
        """The public key as COSE: EC2, ES256, P-256."""
        point = self.signer.private.public_key().public_numbers()
        x, y = (n.to_bytes(32, "big") for n in (point.x, point.y))
        return encode_cbor({1: 2, 3: -7, -1: 1, -2: x, -3: y})

    def create(self, options: dict[str, Any]) -> dict[str, Any]:
        """What `navigator.credentials.create()` answers."""
        client = self._client("webauthn.create", options["challenge"])
        attested = bytes(16) + len(self.credential_id).to_bytes(2, "big") + self.credential_id
        data = self._data(self.flags | AT) + attested + self.cose()
        attestation = encode_cbor({"fmt": "none", "attStmt": {}, "authData": data})
        return self._credential(clientDataJSON=b64(client), attestationObject=b64(attestation))

    def get(self, challenge: str) -> dict[str, Any]:
        """What `navigator.credentials.get()` answers."""
        if self.count is not None:
            self.count += 1
        client = self._client("webauthn.get", challenge)
        data = self._data(self.flags)
        signature = self.signer.der(data + sha256(client).digest())
        return self._credential(
            clientDataJSON=b64(client), authenticatorData=b64(data), signature=b64(signature)
        )

    def sign(self, canonical: str | bytes) -> dict[str, Any]:
        """The passkey proof over a canonical text."""
        text = canonical if isinstance(canonical, bytes) else canonical.encode()
        assertion = self.get(b64(sha256(text).digest()))
        return {"canonical": text.decode(), "assertion": assertion}

    def _client(self, kind: str, challenge: str) -> bytes:
        members = {
            "type": kind,
            "challenge": challenge,
            "origin": self.origin,
            "crossOrigin": False,
        }
        return json.dumps(members | self.client).encode()

    def _data(self, flags: int) -> bytes:
        count = (self.count or 0).to_bytes(4, "big")
        return sha256(self.rp_id.encode()).digest() + bytes([flags]) + count

    def _credential(self, **response: str) -> dict[str, Any]:
        ident = b64(self.credential_id)
        return {
            "id": ident,
            "rawId": ident,
            "type": "public-key",
            "response": response,
            "clientExtensionResults": {},
        }
