"""Access tokens: who is calling, for which tenant, with which scopes (service.md 2).

Claims and times are checked here, by our code, over the payload that was verified. Scopes are
passed on as the token has them; what they open is decided above.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Final

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from app.trust.documents import UnixSeconds, read_model
from app.trust.jose import read_jws, verify_jws
from app.trust.refusal import Refused, UnknownKey

if TYPE_CHECKING:
    from collections.abc import Mapping

    from app.trust.keys import PublicKey

TOKEN_BYTES: Final = 8 * 1024
LEEWAY_S: Final = 30
_TYPES: Final = frozenset({None, "JWT", "at+jwt"})


@dataclass(frozen=True, slots=True)
class AccessClaims:
    """A verified token: the principal `sub` of `tenant`; times in unix seconds."""

    tenant: str
    sub: str
    scopes: frozenset[str]
    roles: frozenset[str]
    jti: str | None
    issued_at: int
    expires_at: int
    issuer: str


def _printable(text: str) -> str:
    # Names go into logs, columns and signed payloads, none of which has a place for U+0000.
    if not text.isprintable():
        raise ValueError("must be printable")
    return text


_Name = Annotated[str, Field(min_length=1, max_length=255), AfterValidator(_printable)]


class _Claims(BaseModel):
    model_config = ConfigDict(strict=True, frozen=True, extra="ignore")

    iss: str
    aud: str | tuple[str, ...]
    sub: _Name
    tid: _Name
    scope: str
    roles: tuple[_Name, ...] = ()
    jti: _Name | None = None
    nbf: UnixSeconds = 0
    exp: UnixSeconds
    iat: UnixSeconds


def verify_access_token(
    token: str,
    *,
    keys: Mapping[str, PublicKey],
    issuer: str,
    audience: str,
    now: int,
    leeway: int = LEEWAY_S,
) -> AccessClaims | Refused:
    """The claims of a token that holds at `now`; `UnknownKey` where its `kid` is not in `keys`."""
    read = read_jws(token, max_bytes=TOKEN_BYTES)
    if isinstance(read, Refused):
        return read
    if read.header.typ not in _TYPES:
        return Refused("typ must be JWT or at+jwt")
    key = keys.get(read.header.kid)
    if key is None:
        return UnknownKey("no key has this kid", read.header.kid)
    payload = verify_jws(read, key=key)
    if isinstance(payload, Refused):
        return payload
    claims = read_model(_Claims, payload)
    if isinstance(claims, Refused):
        return claims
    return _foreign(claims, issuer, audience) or _untimely(claims, now, leeway) or _accepted(claims)


def _foreign(claims: _Claims, issuer: str, audience: str) -> Refused | None:
    if claims.iss != issuer:
        return Refused("iss must be the configured issuer")
    accepted = (claims.aud,) if isinstance(claims.aud, str) else claims.aud
    return None if audience in accepted else Refused("aud must name this service")


def _untimely(claims: _Claims, now: int, leeway: int) -> Refused | None:
    if now >= claims.exp + leeway:
        return Refused("the token has expired")
    if max(claims.nbf, claims.iat) > now + leeway:
        return Refused("the token is not valid yet")
    return None


def _accepted(claims: _Claims) -> AccessClaims:
    return AccessClaims(
        tenant=claims.tid,
        sub=claims.sub,
        scopes=frozenset(claims.scope.split()),
        roles=frozenset(claims.roles),
        jti=claims.jti,
        issued_at=claims.iat,
        expires_at=claims.exp,
        issuer=claims.iss,
    )
