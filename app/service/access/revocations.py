"""Revoking access tokens, and knowing in every process which are revoked (service.md 2).

A revocation is a row; each process reads the new ones every two seconds, so a token is refused
within five wherever it is used, and streams that it opened end.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Final, NoReturn, Protocol

import structlog

from app.errors import StoreUnavailable
from app.log.audit import TokenRevoked
from app.log.envelope import NewEvent, wire_time
from app.log.revocations import Revocation

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator
    from datetime import datetime

    from app.log.payload import JsonObject
    from app.service.caller import Caller
    from app.service.clock import Clock
    from app.service.ports.database import Transaction

POLL_S: Final = 2.0

log = structlog.get_logger("turngate.revocations")


class RevocationList(Protocol):
    """The port: the revocations of all tenants."""

    async def news(self) -> list[Revocation]:
        """What was not told before, and perhaps some that was. Raises StoreUnavailable."""
        ...


class Issued(Protocol):
    """A token that holds otherwise: whose it is, since when, and its id if it has one."""

    @property
    def caller(self) -> Caller: ...
    @property
    def issued_at(self) -> datetime: ...
    @property
    def jti(self) -> str | None: ...


class RevokedTokens:
    """What this process knows of revocations."""

    def __init__(self, revocations: RevocationList, clock: Clock) -> None:
        self._revocations = revocations
        self._clock = clock
        self._ids: set[tuple[str, str]] = set()
        self._before: dict[tuple[str, str], datetime] = {}
        self._watchers: set[Callable[[], None]] = set()

    def covers(self, who: Issued) -> bool:
        """Whether the token is revoked."""
        tenant = who.caller.tenant
        if who.jti is not None and (tenant, who.jti) in self._ids:
            return True
        before = self._before.get((tenant, who.caller.principal))
        return before is not None and who.issued_at < before

    @contextmanager
    def watched(self, changed: Callable[[], None]) -> Iterator[None]:
        """Call `changed` whenever something was revoked, until the block ends."""
        self._watchers.add(changed)
        try:
            yield
        finally:
            self._watchers.discard(changed)

    async def refresh(self) -> None:
        """Read what is new. Raises StoreUnavailable."""
        known = len(self._ids), dict(self._before)
        for one in await self._revocations.news():
            place = (one.tenant, one.value)
            if one.before is None:
                self._ids.add(place)
            else:
                self._before[place] = max(self._before.get(place, one.before), one.before)
        if known != (len(self._ids), self._before):
            for changed in tuple(self._watchers):
                changed()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Know all of them, and hear of new ones beside the block. Raises StoreUnavailable."""
        await self.refresh()
        async with asyncio.TaskGroup() as owner:
            hearing = owner.create_task(self._run())
            try:
                yield
            finally:
                hearing.cancel()

    async def _run(self) -> NoReturn:
        while True:
            await self._clock.sleep(POLL_S)
            try:
                await self.refresh()
            except StoreUnavailable:
                log.warning("revocations.unread")


class Revocations:
    """An administrator's word that tokens do not hold any more."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    async def revoke_token(self, tx: Transaction, caller: Caller, jti: str) -> None:
        """Refuse the token of that id."""
        token = Revocation(tenant=caller.tenant, kind="jti", value=jti, before=None)
        await self._revoke(tx, caller, token, {"jti": jti})

    async def revoke_subject(
        self, tx: Transaction, caller: Caller, subject: str, *, before: datetime
    ) -> None:
        """Refuse the subject's tokens that were issued before that time."""
        tokens = Revocation(tenant=caller.tenant, kind="sub", value=subject, before=before)
        await self._revoke(tx, caller, tokens, {"sub": subject, "before": wire_time(before)})

    async def _revoke(
        self, tx: Transaction, caller: Caller, revocation: Revocation, resource: JsonObject
    ) -> None:
        await tx.revoke_tokens(revocation)
        noted = NewEvent(TokenRevoked(resource=resource, by=caller.principal))
        await tx.append_audit([noted], now=self._clock.now())
