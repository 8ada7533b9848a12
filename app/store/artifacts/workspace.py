"""Files of a workspace, with the trust tag of what was written into each.

A workspace is a conversation's, under its id, or that of one worker in it
(`app.tools.sandbox.workspace`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from app.log.records import FileEntry, WorkspaceFile
from app.store.artifacts.artifact_store import StoreArtifacts
from app.store.server.connections import storing
from app.store.server.row_security import OneTenant
from app.store.texts import escape, unescape

if TYPE_CHECKING:
    from collections.abc import AsyncIterable, AsyncIterator, Sequence
    from datetime import datetime

    from app.runctx.shapes import ArtifactRef
    from app.store.artifacts.bucket import Bucket
    from app.store.server.connections import Pool

_LIST: Final = """
SELECT path, octet_length(content) AS size
FROM workspace_files WHERE tenant = $1 AND conversation_id = $2 ORDER BY path"""
_READ: Final = """
SELECT path, content, trust, updated_at
FROM workspace_files WHERE tenant = $1 AND conversation_id = $2 AND path = $3"""

# Writers of one workspace come one after the other, or two could fill it together.
_LOCK: Final = "SELECT pg_advisory_xact_lock(hashtextextended($1, 1))"
_WRITE: Final = """
INSERT INTO workspace_files (tenant, conversation_id, path, content, trust, updated_at)
SELECT $1, $2, $3, $4::bytea, $5, $6
WHERE octet_length($4::bytea) + (SELECT coalesce(sum(octet_length(content)), 0)
    FROM workspace_files WHERE conversation_id = $2 AND path <> $3) <= $7
ON CONFLICT (conversation_id, path) DO UPDATE SET content = excluded.content,
    trust = excluded.trust, updated_at = excluded.updated_at
RETURNING true"""
# As one act the bound is looked at once, at its end.
_PUT: Final = """
INSERT INTO workspace_files (tenant, conversation_id, path, content, trust, updated_at)
VALUES ($1, $2, $3, $4, $5, $6)
ON CONFLICT (conversation_id, path) DO UPDATE SET content = excluded.content,
    trust = excluded.trust, updated_at = excluded.updated_at"""
_DELETE_ALL: Final = """
DELETE FROM workspace_files WHERE tenant = $1 AND conversation_id = $2 AND path = ANY($3)"""
_SIZE: Final = """
SELECT coalesce(sum(octet_length(content)), 0)
FROM workspace_files WHERE tenant = $1 AND conversation_id = $2"""
_BATCH_BYTES: Final = 4 * 1024 * 1024
_BATCH_FILES: Final = 1000

_DELETE: Final = """
DELETE FROM workspace_files WHERE tenant = $1 AND conversation_id = $2 AND path = $3
RETURNING true"""

_EMPTY: Final = "DELETE FROM workspace_files WHERE tenant = $1 AND conversation_id = $2"
_COPY: Final = """
INSERT INTO workspace_files (tenant, conversation_id, path, content, trust, updated_at)
SELECT f.tenant, $3, f.path, f.content, f.trust, f.updated_at FROM workspace_files f
WHERE f.tenant = $1 AND f.conversation_id = $2 AND EXISTS (SELECT FROM unnest($4::text[]) AS place
    WHERE place IN (f.path, '.') OR starts_with(f.path, place || '/'))
RETURNING path"""


class _Full(Exception):
    """Rolls back what would fill the workspace beyond its bound."""


class StoreWorkspace:
    """The workspaces of one tenant's conversations: the port `WorkspaceStore` of the tools."""

    def __init__(self, pool: Pool, tenant: str, bucket: Bucket | None = None) -> None:
        self._artifacts = StoreArtifacts(pool, bucket)
        self._tenant = escape(tenant)
        self._rows = OneTenant(pool, self._tenant)

    async def list_files(self, conversation_id: str) -> list[FileEntry]:
        """The files in the order of their paths."""
        with storing():
            rows = await self._rows.fetch(_LIST, self._tenant, conversation_id)
        return [FileEntry(unescape(row["path"]), row["size"]) for row in rows]

    async def read_file(self, conversation_id: str, path: str) -> WorkspaceFile | None:
        """The file with its content."""
        with storing():
            row = await self._rows.fetchrow(_READ, self._tenant, conversation_id, escape(path))
        if row is None:
            return None
        return WorkspaceFile(path, row["content"], row["trust"], row["updated_at"])

    async def write_file(
        self, conversation_id: str, file: WorkspaceFile, *, max_total_bytes: int
    ) -> bool:
        """Create or replace; False, and nothing written, if all files together grew beyond that."""
        async with self._rows.transaction() as connection:
            await connection.execute(_LOCK, conversation_id)
            written = await connection.fetchval(
                _WRITE,
                self._tenant,
                conversation_id,
                escape(file.path),
                file.content,
                file.trust,
                file.updated_at,
                max_total_bytes,
            )
        return bool(written)

    async def delete_file(self, conversation_id: str, path: str) -> bool:
        """Whether there was such a file."""
        async with self._rows.transaction() as connection:
            deleted = await connection.fetchval(
                _DELETE, self._tenant, conversation_id, escape(path)
            )
        return bool(deleted)

    async def change_files(
        self,
        conversation_id: str,
        written: AsyncIterable[WorkspaceFile],
        deleted: Sequence[str],
        *,
        max_total_bytes: int,
    ) -> bool:
        """All of it, or, where all files together grew beyond that, nothing and False."""
        gone = [escape(path) for path in deleted]
        try:
            async with self._rows.transaction() as connection:
                await connection.execute(_LOCK, conversation_id)
                await connection.execute(_DELETE_ALL, self._tenant, conversation_id, gone)
                async for batch in _batches(written):
                    rows = [(self._tenant, conversation_id, *_columns(file)) for file in batch]
                    await connection.executemany(_PUT, rows)
                size = await connection.fetchval(_SIZE, self._tenant, conversation_id)
                _require_room(size, max_total_bytes)
        except _Full:
            return False
        return True

    async def copy_files(self, source: str, target: str, places: Sequence[str]) -> list[str]:
        """Make `target` of exactly those files of `source` that lie at or below the places.

        Their paths. Each keeps the tag of what was written into it.
        """
        within = [escape(place) for place in places]
        async with self._rows.transaction() as connection:
            await connection.execute(_LOCK, target)
            await connection.execute(_EMPTY, self._tenant, target)
            rows = await connection.fetch(_COPY, self._tenant, source, target, within)
        return sorted(unescape(row["path"]) for row in rows)

    async def artifact(
        self, conversation_id: str, artifact_id: str
    ) -> tuple[ArtifactRef, bytes] | None:
        """An artifact of the conversation, whoever left it there. Raises ArtifactCorrupt."""
        ref = await self._artifacts.find(unescape(self._tenant), artifact_id)
        if ref is None or ref.identity.session != conversation_id:
            return None
        content = await self._artifacts.get(ref.identity, ref.id)
        return None if content is None else (ref, content)


def _require_room(size: int, most: int) -> None:
    if size > most:
        raise _Full


async def _batches(files: AsyncIterable[WorkspaceFile]) -> AsyncIterator[list[WorkspaceFile]]:
    """The files, as many at a time as memory may hold."""
    batch: list[WorkspaceFile] = []
    size = 0
    async for file in files:
        batch.append(file)
        size += len(file.content)
        if size >= _BATCH_BYTES or len(batch) == _BATCH_FILES:
            yield batch
            batch, size = [], 0
    yield batch


def _columns(file: WorkspaceFile) -> tuple[str, bytes, int, datetime]:
    return escape(file.path), file.content, file.trust, file.updated_at
