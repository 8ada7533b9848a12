"""Who is calling: access tokens, the issuers they come from, and the keys of those issuers.

Every issuer that is accepted has a `KeyRing`. A token is tried against the keys at hand; one under
an unknown `kid` may make the ring fetch its set again, at most once a minute (service.md 2). What
was verified is remembered by the token's digest, so that ES256 is not computed for every request.

A caller whose token does not hold learns nothing but that.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import TYPE_CHECKING, Final, Protocol

from app.errors import TurngateError
from app.service.caller import Caller
from app.service.refusals import TokenRefused
from app.trust.access_token import LEEWAY_S, AccessClaims, verify_access_token
from app.trust.keys import read_key_set
from app.trust.refusal import Refused, UnknownKey

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from app.service.access.revocations import RevokedTokens
    from app.service.clock import Clock
    from app.trust.keys import PublicKey

REFETCH_S: Final = 60.0
FRESH_S: Final = 600.0
# Verified anew after this time, so that keys which were withdrawn do not live on here.
REMEMBER_S: Final = 60.0
REMEMBERED_TOKENS: Final = 10_000


class IssuerUnavailable(TurngateError):
    """The issuer's keys have never been read, so nobody can be recognised just now."""

    code = "unavailable"


class KeyRing(Protocol):
    """The keys of one issuer by their `kid`."""

    async def keys(self) -> Mapping[str, PublicKey]:
        """The keys at hand; none at all while the issuer has never been reached."""
        ...

    async def others(self, seen: Mapping[str, PublicKey]) -> Mapping[str, PublicKey] | None:
        """Keys other than `seen`, read anew if it is time to; None if there are none.

        Raises IssuerUnavailable when the issuer has never been reached.
        """
        ...


class FixedKeys:
    """Keys that never change while the process runs."""

    def __init__(self, keys: Mapping[str, PublicKey]) -> None:
        self._keys = keys

    async def keys(self) -> Mapping[str, PublicKey]:
        """The keys."""
        return self._keys

    async def others(self, seen: Mapping[str, PublicKey]) -> Mapping[str, PublicKey] | None:
        """The keys, unless they were seen."""
        return None if seen is self._keys else self._keys


class FetchedKeys:
    """Keys that are published, read at first use, after ten minutes, and for an unknown `kid`."""

    def __init__(self, read: Callable[[], Awaitable[bytes]], clock: Clock) -> None:
        """`read` gives the JWKS document and raises OSError when it cannot."""
        self._read = read
        self._clock = clock
        self._lock = asyncio.Lock()
        self._keys: dict[str, PublicKey] | None = None
        self._asked_at: float | None = None

    async def keys(self) -> Mapping[str, PublicKey]:
        """The keys at hand, read anew when they are old; none while there never were any."""
        if self._age() >= FRESH_S:
            await self._refresh()
        return self._keys or {}

    async def others(self, seen: Mapping[str, PublicKey]) -> Mapping[str, PublicKey] | None:
        """Keys other than `seen`, read anew at most once a minute. Raises IssuerUnavailable."""
        await self._refresh()
        if self._keys is None:
            raise IssuerUnavailable("the keys of the token's issuer cannot be read")
        return None if self._keys is seen else self._keys

    def _age(self) -> float:
        return float("inf") if self._asked_at is None else self._clock.monotonic() - self._asked_at

    async def _refresh(self) -> None:
        async with self._lock:
            if self._age() < REFETCH_S:
                return
            # Set before the attempt: a source that is down is asked once a minute, too.
            self._asked_at = self._clock.monotonic()
            try:
                document = await self._read()
            except OSError:
                return
            keys = read_key_set(document)
            if not isinstance(keys, Refused) and keys != self._keys:
                self._keys = keys


@dataclass(frozen=True, slots=True)
class Authenticated:
    """A caller, and how long the token speaks for them."""

    caller: Caller
    expires_at: datetime
    issued_at: datetime
    jti: str | None

    @property
    def ends_at(self) -> datetime:
        """When the token is over on every clock that is allowed for."""
        return self.expires_at + timedelta(seconds=LEEWAY_S)

    def ended(self, now: datetime) -> Authenticated:
        """The same caller, whose token is over now."""
        return replace(self, expires_at=now - timedelta(seconds=LEEWAY_S))


class Access:
    """Recognises callers by their tokens; `issuers` maps each `iss` to its keys."""

    def __init__(
        self,
        clock: Clock,
        *,
        issuers: Mapping[str, KeyRing],
        audience: str,
        revoked: RevokedTokens,
        capacity: int = REMEMBERED_TOKENS,
    ) -> None:
        self._clock = clock
        self._issuers = issuers
        self._audience = audience
        self.revoked = revoked
        self._capacity = capacity
        self._known: dict[bytes, _Remembered] = {}

    async def authenticate(self, token: str) -> Authenticated:
        """The caller of a token that holds now. Raises TokenRefused and IssuerUnavailable."""
        who = await self._recognised(token)
        if self.revoked.covers(who):
            raise TokenRefused("the access token is missing, invalid or expired")
        return who

    async def _recognised(self, token: str) -> Authenticated:
        digest = sha256(token.encode(errors="surrogatepass")).digest()
        now = self._clock.now()
        known = self._known.pop(digest, None)
        if known is not None and known.holds(now, self._clock.monotonic()):
            self._known[digest] = known
            return known.who
        claims = await self._verified(token, int(now.timestamp()))
        if claims is None:
            raise TokenRefused("the access token is missing, invalid or expired")
        found = _authenticated(claims)
        self._remember(digest, found)
        return found

    async def _verified(self, token: str, now: int) -> AccessClaims | None:
        strangers: list[tuple[str, Mapping[str, PublicKey]]] = []
        for issuer, ring in self._issuers.items():
            keys = await ring.keys()
            verdict = self._verify(token, issuer, keys, now)
            if isinstance(verdict, AccessClaims):
                return verdict
            if isinstance(verdict, UnknownKey):
                strangers.append((issuer, keys))
        for issuer, seen in strangers:
            others = await self._issuers[issuer].others(seen)
            if others is None:
                continue
            verdict = self._verify(token, issuer, others, now)
            if isinstance(verdict, AccessClaims):
                return verdict
        return None

    def _verify(
        self, token: str, issuer: str, keys: Mapping[str, PublicKey], now: int
    ) -> AccessClaims | Refused:
        return verify_access_token(
            token, keys=keys, issuer=issuer, audience=self._audience, now=now
        )

    def _remember(self, digest: bytes, found: Authenticated) -> None:
        if len(self._known) >= self._capacity:
            # The one unused for longest goes: dictionaries keep their order.
            del self._known[next(iter(self._known))]
        self._known[digest] = _Remembered(found, self._clock.monotonic())


@dataclass(frozen=True, slots=True)
class _Remembered:
    who: Authenticated
    verified_at: float

    def holds(self, now: datetime, monotonic: float) -> bool:
        return now < self.who.ends_at and monotonic < self.verified_at + REMEMBER_S


def _authenticated(claims: AccessClaims) -> Authenticated:
    return Authenticated(
        Caller(claims.tenant, claims.sub, claims.scopes, claims.roles),
        expires_at=datetime.fromtimestamp(claims.expires_at, UTC),
        issued_at=datetime.fromtimestamp(claims.issued_at, UTC),
        jti=claims.jti,
    )
