"""Pieces and objects that no artifact needs: noted, so that none is forgotten, and swept.

Bytes are noted before they lie anywhere and stay noted until an artifact takes them, in the
transaction that makes the artifact; an artifact that goes leaves its bytes noted in turn. So a
process may die anywhere: what it left behind is due some day, and nothing that is needed ever is.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import structlog

from app.errors import StoreUnavailable

if TYPE_CHECKING:
    from app.store.artifacts.bucket import Bucket
    from app.store.server.connections import Connection
    from app.store.server.row_security import EveryTenant, OneTenant

# Longer than a piece of an upload may take, or an object, and the transaction after it.
GRACE_S: Final = 3600
TICK_S: Final = 60.0
MOST: Final = 500

_NOTE: Final = """
INSERT INTO artifact_leftovers (tenant, key, due_at, in_pieces)
VALUES ($1, $2, now() + make_interval(secs => $3), $4)"""
_TAKE: Final = """
DELETE FROM artifact_leftovers WHERE key = $1 AND in_pieces = $2 RETURNING true"""
_HURRY: Final = "UPDATE artifact_leftovers SET due_at = now() WHERE key = $1"
# Locked until the bytes are gone: whoever comes to take them just then finds them swept.
_DUE: Final = """
SELECT key FROM artifact_leftovers WHERE due_at <= now() AND in_pieces = $2
ORDER BY due_at LIMIT $1 FOR UPDATE SKIP LOCKED"""
_SWEEP_PIECES: Final = "DELETE FROM artifact_pieces WHERE key = ANY($1::text[])"
_SWEPT: Final = """
DELETE FROM artifact_leftovers WHERE key = ANY($1::text[]) AND in_pieces = $2"""

log = structlog.get_logger("turngate.artifacts")


async def note(rows: OneTenant, tenant: str, key: str, *, in_pieces: bool) -> None:
    """Note bytes that are about to come: pieces, or an object. Raises StoreUnavailable."""
    await rows.execute(_NOTE, tenant, key, GRACE_S, in_pieces)


async def hurry(rows: OneTenant, key: str) -> None:
    """Leave bytes that no artifact has taken to the next sweep. Raises StoreUnavailable."""
    await rows.execute(_HURRY, key)


async def take(connection: Connection, key: str, *, in_pieces: bool) -> None:
    """Take bytes for an artifact.

    Raises StoreUnavailable where they are not there to be taken, or not any more.
    """
    if await connection.fetchval(_TAKE, key, in_pieces) is None:
        raise StoreUnavailable("the bytes are not where they were brought")


class Leftovers:
    """Owns the task that sweeps pieces, and objects where there is a bucket."""

    def __init__(
        self, everyone: EveryTenant, bucket: Bucket | None = None, *, tick_s: float = TICK_S
    ) -> None:
        self._everyone = everyone
        self._tick_s = tick_s
        self._bucket = bucket

    async def run(self) -> None:
        """Sweep at every tick until cancelled; what cannot be swept now waits."""
        while True:
            await asyncio.sleep(self._tick_s)
            try:
                await self.sweep()
            except StoreUnavailable as error:
                log.warning("artifacts.unswept", error=error.message)

    async def sweep(self) -> int:
        """Delete what is due; of how many files it was. Raises StoreUnavailable."""
        swept = await self._sweep(in_pieces=True)
        return swept if self._bucket is None else swept + await self._sweep(in_pieces=False)

    async def _sweep(self, *, in_pieces: bool) -> int:
        async with self._everyone.transaction() as connection:
            keys = [row["key"] for row in await connection.fetch(_DUE, MOST, in_pieces)]
            if keys and in_pieces:
                await connection.execute(_SWEEP_PIECES, keys)
            elif keys and self._bucket is not None:
                await self._bucket.delete(keys)
            await connection.execute(_SWEPT, keys, in_pieces)
        return len(keys)
