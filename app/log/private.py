"""What lies beside `approval.decided` in the private column: the signed bytes and what they say.

The service writes it; whoever rebuilds or audits decisions reads it. Fields are only ever added.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from dataclasses import dataclass

import orjson


@dataclass(frozen=True, slots=True)
class SignedDecision:
    """The verified document of a decision, and those of its fields that the event leaves out.

    `signed` holds the exact bytes: a compact JWS, a passkey document, or the service's own seal.
    """

    signed: bytes
    payload_sha256: str
    override_args: str | None = None
    note: str | None = None
    reason: str | None = None
    sandbox_mode: str | None = None

    def encode(self) -> bytes:
        """The private bytes."""
        return orjson.dumps(
            {
                "signed": b64encode(self.signed).decode(),
                "payload_sha256": self.payload_sha256,
                "override_args": self.override_args,
                "note": self.note,
                "reason": self.reason,
                "sandbox_mode": self.sandbox_mode,
            }
        )

    @classmethod
    def decode(cls, private: bytes) -> SignedDecision:
        """The document in the private bytes. Raises KeyError or ValueError when it is not one."""
        fields = orjson.loads(private)
        return cls(
            signed=b64decode(fields["signed"], validate=True),
            payload_sha256=fields["payload_sha256"],
            override_args=fields["override_args"],
            note=fields["note"],
            reason=fields["reason"],
            sandbox_mode=fields["sandbox_mode"],
        )
