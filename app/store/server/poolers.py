"""Addresses of a transaction pooler, such as PgBouncer: how they are told, and what they must do.

Behind one, a session is borrowed for a transaction. Three things that last longer do not work
there: statements kept under a name, settings of the session, and LISTEN. So such an address says
`?pgbouncer=true`, and the store does without; what it cannot do without is asked for at the start.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import asyncpg

from app.errors import StoreUnavailable

MARK: Final = "pgbouncer=true"
PATIENCE_S: Final = 10

# A transaction that waits or hangs for ever would hold a conversation for ever.
_REQUIRED: Final = {"lock_timeout": "10s", "idle_in_transaction_session_timeout": "60s"}
_WHO: Final = "SELECT pg_backend_pid()"
_UNSET: Final = """
SELECT name FROM pg_settings WHERE name = ANY($1::text[]) AND setting = '0' ORDER BY name"""
_PLACE: Final = "SELECT quote_ident(current_user), quote_ident(current_database())"


@dataclass(frozen=True, slots=True)
class Address:
    """Where the database is, as the driver takes it, and whether through a transaction pooler."""

    dsn: str
    is_pooled: bool


def address_of(url: str) -> Address:
    """The address behind a URL; the mark is no parameter of the driver's."""
    base, _, query = url.partition("?")
    parts = [part for part in query.split("&") if part]
    kept = [part for part in parts if part != MARK]
    return Address("?".join([base, "&".join(kept)] if kept else [base]), len(kept) < len(parts))


async def check_address(url: str) -> None:
    """See that the address is what it says. Raises StoreUnavailable with what is to be done."""
    address = address_of(url)
    try:
        first, second = await _open(address), await _open(address)
    except (OSError, TimeoutError, asyncpg.PostgresError) as error:
        raise StoreUnavailable(f"the database cannot be reached: {error}") from error
    try:
        if address.is_pooled:
            await _see_settings(first)
        elif await first.fetchval(_WHO) == await second.fetchval(_WHO):
            # Two open connections on one session: somebody between us hands sessions out.
            raise StoreUnavailable(
                f"the address is a transaction pooler's: add `?{MARK}` to it (docs/operations.md)"
            )
    finally:
        await first.close()
        await second.close()


async def _open(address: Address) -> asyncpg.Connection[asyncpg.Record]:
    return await asyncpg.connect(address.dsn, timeout=PATIENCE_S, statement_cache_size=0)


async def _see_settings(connection: asyncpg.Connection[asyncpg.Record]) -> None:
    unset = [row["name"] for row in await connection.fetch(_UNSET, list(_REQUIRED))]
    if not unset:
        return
    role, database = await connection.fetchrow(_PLACE) or ("", "")
    wanted = "; ".join(
        f"ALTER ROLE {role} IN DATABASE {database} SET {name} = '{_REQUIRED[name]}'"
        for name in unset
    )
    raise StoreUnavailable(
        f"sessions behind the pooler wait for ever: run {wanted}; and RECONNECT the pooler"
    )
