"""Rows of artifacts: what is known of a file, and where its bytes lie (run-context.md 7).

A file is known by its SHA-256 within its scope, and nothing is shared between scopes: whoever keeps
a file learns nothing about anybody else's. The bytes of a small one lie in its row, out of line and
uncompressed, so that lists never touch them; those of a large one in pieces (`pieces`), and with a
bucket all new ones there. Pieces and objects have the artifact's id: each row has its own, so that
letting go of one never takes another's bytes. All kinds of rows are read wherever this process can
reach their bytes.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import asyncpg
import structlog

from app.engine.json.arguments import sha256_hex
from app.errors import ArtifactCorrupt, StoreUnavailable
from app.ids import Identity
from app.policy.taint import Trust
from app.runctx.identity import require_identity
from app.runctx.shapes import ArtifactRef, Staged
from app.store.artifacts import leftovers, pieces
from app.store.artifacts.incoming import at_hand
from app.store.server.connections import storing
from app.store.server.row_security import OneTenant
from app.store.texts import escape, unescape

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from app.log.queries import Page
    from app.runctx.shapes import NewArtifact
    from app.store.artifacts.bucket import Bucket
    from app.store.server.connections import Connection, Pool
    from app.store.server.row_security import Reader

_DIGEST_BYTES: Final = 32
_COLUMNS: Final = """id, tenant, principal, conversation_id, namespace, sha256, mime, sniffed,
    size_bytes, filename, tool, run_id, stored_by, trust, created_at"""
_SCOPE: Final = "tenant = $1 AND principal = $2 AND conversation_id = $3"

# The first metadata stay, and trust is joined: the same bytes from a worse source are worse.
_PUT: Final = """
INSERT INTO artifacts (COLUMNS, content, in_pieces, piece_bytes, piece_digests)
VALUES ($4, $1, $2, $3, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19)
ON CONFLICT (tenant, principal, conversation_id, namespace, sha256)
    DO UPDATE SET trust = greatest(artifacts.trust, excluded.trust)
RETURNING COLUMNS""".replace("COLUMNS", _COLUMNS)
_REF: Final = "SELECT COLUMNS FROM artifacts WHERE SCOPE AND id = $4".replace(
    "COLUMNS", _COLUMNS
).replace("SCOPE", _SCOPE)
_CONTENT: Final = (
    "SELECT sha256, size_bytes, content, in_pieces FROM artifacts WHERE SCOPE AND id = $4".replace(
        "SCOPE", _SCOPE
    )
)
_LAYOUT: Final = """
SELECT in_pieces, piece_bytes, piece_digests FROM artifacts
WHERE SCOPE AND id = $4 AND piece_bytes IS NOT NULL""".replace("SCOPE", _SCOPE)
_IN_BUCKET: Final = """
SELECT true FROM artifacts
WHERE SCOPE AND id = $4 AND content IS NULL AND NOT in_pieces""".replace("SCOPE", _SCOPE)
_DELETE: Final = """
WITH gone AS (
    DELETE FROM artifacts WHERE SCOPE AND id = $4 RETURNING tenant, id, content, in_pieces
)
INSERT INTO artifact_leftovers (tenant, key, due_at, in_pieces)
SELECT tenant, id, now(), in_pieces FROM gone WHERE content IS NULL""".replace("SCOPE", _SCOPE)
_LIST: Final = "SELECT COLUMNS FROM artifacts WHERE SCOPE ORDER BY created_at DESC, id".replace(
    "COLUMNS", _COLUMNS
).replace("SCOPE", _SCOPE)
_FIND: Final = "SELECT COLUMNS FROM artifacts WHERE tenant = $1 AND id = $2".replace(
    "COLUMNS", _COLUMNS
)
_PAGE: Final = """
SELECT COLUMNS FROM artifacts
WHERE tenant = $1 AND conversation_id = $2 AND ($3::text IS NULL OR id < $3)
ORDER BY id DESC LIMIT $4""".replace("COLUMNS", _COLUMNS)

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Layout:
    """How the bytes of an artifact are divided, and the digests of its pieces."""

    in_pieces: bool
    piece_bytes: int
    piece_digests: bytes

    def digest(self, position: int) -> bytes:
        """The SHA-256 of one piece."""
        return self.piece_digests[position * _DIGEST_BYTES : (position + 1) * _DIGEST_BYTES]


class ArtifactRows:
    """Artifacts over a pool, or a tenant's rows or transaction, and perhaps over a bucket."""

    def __init__(self, source: Pool | Reader, bucket: Bucket | None = None) -> None:
        self._source = source
        self._bucket = bucket

    async def keep(self, identity: Identity, new: NewArtifact) -> tuple[ArtifactRef, bool]:
        """Keep a file that was staged, or is small enough for its row.

        With False the scope has it already, and only its trust is joined. Raises StoreUnavailable.
        """
        scope = scope_of(identity)
        staged = new.content
        if not isinstance(staged, Staged):
            staged = await asyncio.to_thread(at_hand, new.id, staged)
        row = (*scope, *_columns(new, staged, run=identity.run))
        async with _as_one(self._rows(scope[0])) as connection:
            ref, is_new = _kept(await connection.fetch(_PUT, *row), new)
            if is_new and staged.content is None:
                await leftovers.take(connection, new.id, in_pieces=not staged.in_bucket)
        return ref, is_new

    async def get_ref(self, identity: Identity, artifact_id: str) -> ArtifactRef | None:
        """The file without its bytes."""
        scope = scope_of(identity)
        with storing():
            row = await self._rows(scope[0]).fetchrow(_REF, *scope, escape(artifact_id))
        return None if row is None else _ref(row)

    async def get(self, identity: Identity, artifact_id: str) -> bytes | None:
        """The bytes. Raises ArtifactCorrupt if they are not those that were kept."""
        scope = scope_of(identity)
        with storing():
            row = await self._rows(scope[0]).fetchrow(_CONTENT, *scope, escape(artifact_id))
        if row is None:
            return None
        content: bytes | None = row["content"]
        if row["in_pieces"]:
            content = await pieces.read_all(self._rows(scope[0]), scope[0], artifact_id)
        elif content is None:
            content = await self._reachable().get(artifact_id, size=row["size_bytes"])
        if content is None or await asyncio.to_thread(sha256_hex, content) != row["sha256"]:
            raise ArtifactCorrupt(f"{artifact_id!r} has other bytes than were kept")
        return content

    async def layout(self, identity: Identity, artifact_id: str) -> Layout | None:
        """How the bytes are divided; None for those that are kept whole, or are gone."""
        scope = scope_of(identity)
        with storing():
            row = await self._rows(scope[0]).fetchrow(_LAYOUT, *scope, escape(artifact_id))
        return None if row is None else Layout(**dict(row))

    async def presigned(self, identity: Identity, artifact_id: str, *, seconds: int) -> str | None:
        """A URL of the bucket that reads the bytes for so long; None if they lie elsewhere."""
        scope = scope_of(identity)
        if self._bucket is None:
            return None
        with storing():
            is_there = await self._rows(scope[0]).fetchval(_IN_BUCKET, *scope, escape(artifact_id))
        return await self._bucket.presigned(artifact_id, seconds=seconds) if is_there else None

    async def exists(self, identity: Identity, artifact_id: str) -> bool:
        """Whether the scope holds the file."""
        return await self.get_ref(identity, artifact_id) is not None

    async def delete(self, identity: Identity, artifact_id: str) -> None:
        """Let go of a file; of one that is not there as well."""
        scope = scope_of(identity)
        with storing():
            await self._rows(scope[0]).execute(_DELETE, *scope, escape(artifact_id))

    async def aclose(self) -> None:
        """Nothing of it outlives a call; connections are the pool's."""

    async def find(self, tenant: str, artifact_id: str) -> ArtifactRef | None:
        """The tenant's file of that id; whether it is in reach is the caller's business."""
        with storing():
            row = await self._rows(escape(tenant)).fetchrow(
                _FIND, escape(tenant), escape(artifact_id)
            )
        return None if row is None else _ref(row)

    async def page(self, tenant: str, conversation_id: str, page: Page) -> list[ArtifactRef]:
        """The conversation's files, newest first; the cursor is an id."""
        before = None if page.before is None else escape(page.before)
        where = (escape(tenant), escape(conversation_id))
        with storing():
            rows = await self._rows(where[0]).fetch(_PAGE, *where, before, page.limit)
        return [_ref(row) for row in rows]

    async def list(self, identity: Identity) -> list[ArtifactRef]:
        """The session's files, newest first, those of one moment by id."""
        scope = scope_of(identity)
        with storing():
            rows = await self._rows(scope[0]).fetch(_LIST, *scope)
        return [_ref(row) for row in rows]

    def _rows(self, tenant: str) -> Reader:
        source = self._source
        return OneTenant(source, tenant) if isinstance(source, asyncpg.Pool) else source

    def _reachable(self) -> Bucket:
        if self._bucket is None:
            raise StoreUnavailable("the bytes lie in a bucket, and this process has none")
        return self._bucket


def scope_of(identity: Identity) -> tuple[str, str, str]:
    """The columns of its scope, as they are stored. Raises IdentityRequired, with a notice."""
    require_identity(identity, log, "artifact.identity_rejected")
    return escape(identity.tenant), escape(identity.user), escape(identity.session)


@asynccontextmanager
async def _as_one(reader: Reader) -> AsyncIterator[Connection]:
    """A transaction, or a part of the one that there is. Raises StoreUnavailable."""
    if isinstance(reader, OneTenant):
        async with reader.transaction() as connection:
            yield connection
    else:
        with storing():
            yield reader


def _columns(new: NewArtifact, staged: Staged, *, run: str) -> tuple[object, ...]:
    """The columns after a row's scope."""
    return (
        new.id,
        new.namespace,
        staged.sha256,
        escape(new.mime),
        staged.sniffed,
        staged.size_bytes,
        None if new.filename is None else escape(new.filename),
        new.tool,
        run or None,
        escape(new.by),
        int(new.trust),
        new.at,
        staged.content,
        staged.content is None and not staged.in_bucket,
        staged.piece_bytes,
        staged.piece_digests,
    )


def _kept(rows: Sequence[asyncpg.Record], new: NewArtifact) -> tuple[ArtifactRef, bool]:
    """The row as it is now, and whether it is the new one's own."""
    (row,) = rows
    ref = _ref(row)
    return ref, ref.id == new.id


def _ref(row: asyncpg.Record) -> ArtifactRef:
    return ArtifactRef(
        id=row["id"],
        identity=Identity(
            unescape(row["tenant"]),
            unescape(row["principal"]),
            row["conversation_id"],
            row["run_id"] or "",
        ),
        namespace=row["namespace"],
        sha256=row["sha256"],
        mime=unescape(row["mime"]),
        sniffed=row["sniffed"],
        size_bytes=row["size_bytes"],
        filename=None if row["filename"] is None else unescape(row["filename"]),
        tool=row["tool"],
        by=unescape(row["stored_by"]),
        trust=Trust.from_byte(row["trust"]),
        created_at=row["created_at"],
    )
