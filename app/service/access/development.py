"""The local development issuer: tokens for a machine of one's own, never for production.

Its key comes in as text and goes out as text; where that is kept is the caller's affair.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from app.service.caller import SCOPES
from app.service.fresh_key import fresh_key
from app.trust.jose import sign_jws
from app.trust.keys import SigningKey, derive_signing_key, read_signing_key
from app.trust.refusal import Refused

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from app.service.clock import Clock
    from app.trust.keys import PublicKey

DEVELOPMENT_ISSUER: Final = "turngate-development"
DEFAULT_TTL_S: Final = 3600
# The name under which its document is kept, by whoever keeps it.
ISSUER_FILE: Final = "dev-issuer.json"


def development_issuer(
    data_dir: Path, clock: Clock, *, kept: Callable[[Path, Callable[[], bytes]], bytes]
) -> DevelopmentIssuer:
    """The issuer of this machine, made at the first use. Raises IssuerUnreadable.

    `kept` gives the content of a file, or puts there what it is to hold.
    """
    document = kept(data_dir / ISSUER_FILE, lambda: DevelopmentIssuer.fresh(clock).document())
    return DevelopmentIssuer.from_document(document)


class IssuerUnreadable(ValueError):
    """The stored key of the development issuer is damaged."""


class UnknownScope(ValueError):
    """A token was asked for with a scope that opens nothing."""


@dataclass(frozen=True, slots=True)
class TokenOrder:
    """Whom a token is to speak for, and for how long."""

    tenant: str
    sub: str
    scopes: tuple[str, ...]
    roles: tuple[str, ...] = ()
    ttl_s: int = DEFAULT_TTL_S


class DevelopmentIssuer:
    """Signs access tokens with a key of this machine."""

    def __init__(self, key: SigningKey) -> None:
        self._key = key
        self._kid = key.public.thumbprint()

    @classmethod
    def from_chance(cls, chance: bytes) -> DevelopmentIssuer:
        """A new issuer from forty unpredictable bytes."""
        return cls(derive_signing_key(chance))

    @classmethod
    def fresh(cls, clock: Clock) -> DevelopmentIssuer:
        """A new issuer, with chance from the clock."""
        return cls(fresh_key(clock))

    @classmethod
    def from_document(cls, document: bytes) -> DevelopmentIssuer:
        """The issuer that `document()` wrote. Raises IssuerUnreadable."""
        try:
            pem = json.loads(document)["private_pem"].encode()
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise IssuerUnreadable("expected an object with private_pem") from error
        key = read_signing_key(pem)
        if isinstance(key, Refused):
            raise IssuerUnreadable(key.reason)
        return cls(key)

    def document(self) -> bytes:
        """What is to be kept, readable by the owner alone: it holds the private key."""
        members = {"issuer": DEVELOPMENT_ISSUER, "private_pem": self._key.pem().decode()}
        return json.dumps(members, indent=2).encode() + b"\n"

    def keys(self) -> Mapping[str, PublicKey]:
        """The public key under its `kid`."""
        return {self._kid: self._key.public}

    def token(self, order: TokenOrder, *, audience: str, clock: Clock) -> str:
        """An access token. Raises UnknownScope."""
        scopes = sorted(set(order.scopes))
        if unknown := [scope for scope in scopes if scope not in SCOPES]:
            raise UnknownScope(f"no such scope: {', '.join(unknown)}")
        now = clock.now_s()
        claims = {
            "iss": DEVELOPMENT_ISSUER,
            "aud": audience,
            "sub": order.sub,
            "tid": order.tenant,
            "scope": " ".join(scopes),
            "roles": sorted(set(order.roles)),
            "jti": clock.mint("jti"),
            "iat": now,
            "nbf": now,
            "exp": now + order.ttl_s,
        }
        return sign_jws(json.dumps(claims).encode(), key=self._key, kid=self._kid, typ="JWT")
