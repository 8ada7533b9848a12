"""The service's own public keys, of all its processes: the port `ServiceKeys`.

They belong to no tenant. A row is never changed and never removed: what a key signed stays
verifiable.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import asyncpg
import orjson

from app.errors import StoreUnavailable
from app.store.server.connections import borrowed

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from app.store.server.connections import Pool

_ADD: Final = """
INSERT INTO service_keys (kid, public_jwk, created_at) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING"""
ALL: Final = "SELECT kid, public_jwk FROM service_keys ORDER BY created_at, kid"


class StoreServiceKeys:
    """Adds a key and reads all."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def add(self, kid: str, public_jwk: Mapping[str, str], *, now: datetime) -> None:
        """Publish a key; one that is there stays as it is. Raises StoreUnavailable."""
        try:
            async with borrowed(self._pool) as connection:
                await connection.execute(_ADD, kid, orjson.dumps(dict(public_jwk)).decode(), now)
        except asyncpg.UndefinedTableError as error:
            raise StoreUnavailable("the database has not been migrated") from error

    async def all(self) -> dict[str, dict[str, str]]:
        """Every public JWK by its `kid`, oldest first. Raises StoreUnavailable."""
        async with borrowed(self._pool) as connection:
            rows = await connection.fetch(ALL)
        return {row["kid"]: orjson.loads(row["public_jwk"]) for row in rows}
