"""Pieces: the bytes of a large artifact in Postgres, written and read one piece at a time.

They have the artifact's id as their key before there is an artifact. Nothing but a note
(`leftovers`) says that they may still be needed, so none is added without it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from app.errors import StoreUnavailable
from app.store.artifacts.leftovers import GRACE_S
from app.store.server.connections import storing

if TYPE_CHECKING:
    from collections.abc import AsyncIterable

    from app.store.server.row_security import OneTenant, Reader

# A crash of the server may forget a piece, but only before the artifact is committed: that commit
# waits for the log of the server up to there.
_IN_NO_HURRY: Final = "SET LOCAL synchronous_commit = off"
# The note is locked with it, so a sweep comes before the piece, which is refused then, or after it.
_APPEND: Final = """
WITH noted AS (
    UPDATE artifact_leftovers SET due_at = now() + make_interval(secs => $5)
    WHERE tenant = $1 AND key = $2 AND in_pieces RETURNING key
)
INSERT INTO artifact_pieces (tenant, key, position, content)
SELECT $1, key, $3, $4 FROM noted RETURNING true"""
_READ: Final = """
SELECT content FROM artifact_pieces WHERE tenant = $1 AND key = $2 AND position = $3"""
_READ_ALL: Final = """
SELECT content FROM artifact_pieces WHERE tenant = $1 AND key = $2 ORDER BY position"""


async def append_all(rows: OneTenant, tenant: str, key: str, pieces: AsyncIterable[bytes]) -> None:
    """Add pieces as they come, each in a transaction of its own, which renews the key's note.

    Raises StoreUnavailable, also where there is no note any more.
    """
    position = 0
    async for piece in pieces:
        async with rows.transaction() as connection:
            await connection.execute(_IN_NO_HURRY)
            added = await connection.fetchval(_APPEND, tenant, key, position, piece, GRACE_S)
        if added is None:
            raise StoreUnavailable("the upload took so long that it was swept away")
        position += 1


async def read(reader: Reader, tenant: str, key: str, *, position: int) -> bytes | None:
    """One piece; None where it is gone."""
    with storing():
        found: bytes | None = await reader.fetchval(_READ, tenant, key, position)
    return found


async def read_all(reader: Reader, tenant: str, key: str) -> bytes:
    """All pieces together."""
    with storing():
        rows = await reader.fetch(_READ_ALL, tenant, key)
    return b"".join(row["content"] for row in rows)
