"""Objects in the bucket that no artifact needs: noted, so that none is forgotten, and swept.

An object is noted before it is uploaded and stays noted until an artifact takes it, in the
transaction that makes the artifact; an artifact that goes leaves its object noted in turn. So a
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
    from app.store.server.row_security import EveryTenant, Reader

# Longer than any upload and the transaction after it may take.
GRACE_S: Final = 3600
TICK_S: Final = 60.0
MOST: Final = 500

_NOTE: Final = """
INSERT INTO artifact_leftovers (tenant, key, due_at)
VALUES ($1, $2, now() + make_interval(secs => $3))"""
_TAKE: Final = "DELETE FROM artifact_leftovers WHERE key = $1 RETURNING true"
_HURRY: Final = "UPDATE artifact_leftovers SET due_at = now() WHERE key = $1"
# Locked until the objects are gone: whoever comes to take one just then finds it swept.
_DUE: Final = """
SELECT key FROM artifact_leftovers WHERE due_at <= now()
ORDER BY due_at LIMIT $1 FOR UPDATE SKIP LOCKED"""
_SWEPT: Final = "DELETE FROM artifact_leftovers WHERE key = ANY($1::text[])"

log = structlog.get_logger("turngate.bucket")


async def note(reader: Reader, tenant: str, key: str) -> None:
    """Note an object that is about to be uploaded."""
    await reader.execute(_NOTE, tenant, key, GRACE_S)


async def settle(connection: Connection, key: str, *, is_kept: bool) -> None:
    """Take the object for an artifact, or leave it to the next sweep.

    Raises StoreUnavailable where it is not there to be taken, or not any more.
    """
    if not is_kept:
        await connection.execute(_HURRY, key)
    elif await connection.fetchval(_TAKE, key) is None:
        raise StoreUnavailable("the bytes are not in the bucket")


class Leftovers:
    """Owns the task that sweeps the bucket."""

    def __init__(self, everyone: EveryTenant, bucket: Bucket, *, tick_s: float = TICK_S) -> None:
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
                log.warning("bucket.unswept", error=error.message)

    async def sweep(self) -> int:
        """Delete the objects that are due; how many there were. Raises StoreUnavailable."""
        async with self._everyone.transaction() as connection:
            keys = [row["key"] for row in await connection.fetch(_DUE, MOST)]
            if keys:
                await self._bucket.delete(keys)
                await connection.execute(_SWEPT, keys)
        return len(keys)
