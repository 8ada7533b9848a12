"""The revocations of all tenants, for the processes to know: the port `RevocationList`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from app.log.revocations import Revocation
from app.store.texts import escape, unescape

if TYPE_CHECKING:
    from datetime import datetime

    from app.store.server.row_security import EveryTenant

# A subject's later word stands: what was refused is never let in again.
REVOKE: Final = """
INSERT INTO revocations AS r (tenant, kind, value, before, at)
VALUES ($1, $2, $3, $4, clock_timestamp())
ON CONFLICT (tenant, kind, value) DO UPDATE
    SET before = greatest(r.before, excluded.before), at = excluded.at"""
_SINCE: Final = """
SELECT tenant, kind, value, before, at FROM revocations
WHERE $1::timestamptz IS NULL OR at > $1::timestamptz - interval '1 minute' ORDER BY at"""


def revoked(tenant: str, revocation: Revocation) -> tuple[str, str, str, datetime | None]:
    """The parameters of REVOKE; `tenant` is escaped already."""
    return tenant, revocation.kind, escape(revocation.value), revocation.before


class StoreRevocations:
    """Reads what was revoked since the last time; the first time, all of it."""

    def __init__(self, everyone: EveryTenant) -> None:
        self._everyone = everyone
        self._seen: datetime | None = None

    async def news(self) -> list[Revocation]:
        """What is new, and some of what was; a commit that took long is not missed.

        Raises StoreUnavailable.
        """
        async with self._everyone.borrowed() as connection:
            rows = await connection.fetch(_SINCE, self._seen)
        if rows:
            self._seen = rows[-1]["at"]
        return [
            Revocation(
                tenant=unescape(row["tenant"]),
                kind=row["kind"],
                value=unescape(row["value"]),
                before=row["before"],
            )
            for row in rows
        ]
