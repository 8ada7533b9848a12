"""What the service needs of remembered grants."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from app.log.grants import GrantRecord, GrantUse
    from app.log.queries import Page


class GrantReads(Protocol):
    """Reads of a tenant's remembered grants."""

    async def live_grants(
        self, principal: str, agent: str, at: datetime
    ) -> tuple[GrantRecord, ...]:
        """The grants of that principal and agent that are active then, newest first.

        Read anew at each start and resume of a run: what is revoked serves at once no more.
        """
        ...

    async def grant(self, grant_id: str) -> GrantRecord | None: ...
    async def grants(self, principal: str, page: Page) -> list[GrantRecord]: ...
    async def grant_uses(
        self, grant_ids: Sequence[str], limit: int
    ) -> dict[str, tuple[GrantUse, ...]]:
        """Where each of the grants let a call run, newest first, at most `limit` of each."""
        ...


class GrantWrites(Protocol):
    """Writes that a grant needs beside the tenant's own log, which it is folded from."""

    async def use_nonce(self, nonce: str, payload_sha256: str) -> bool:
        """Take the nonce of a signed text for good; False when it was used before."""
        ...
