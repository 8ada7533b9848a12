"""Artifacts in Postgres: the default driver of the port `ArtifactStore` (run-context.md 7).

A file is known by its SHA-256 within its scope, and nothing is shared between scopes: whoever keeps
a file learns nothing about anybody else's. The bytes lie in the row, out of line and uncompressed,
so that lists never touch them.
"""

from __future__ import annotations

import asyncio
import hashlib
from typing import TYPE_CHECKING, Final

import structlog

from app.errors import ArtifactCorrupt, IdentityRequired
from app.ids import Identity
from app.policy.taint import Trust
from app.runctx.mime import sniffed
from app.runctx.shapes import ArtifactRef
from app.store.connections import storing
from app.store.texts import escape, unescape

if TYPE_CHECKING:
    import asyncpg

    from app.log.queries import Page
    from app.runctx.shapes import NewArtifact
    from app.store.connections import Reader

_COLUMNS: Final = """id, tenant, principal, conversation_id, namespace, sha256, mime, sniffed,
    size_bytes, filename, tool, run_id, stored_by, trust, created_at"""
_SCOPE: Final = "tenant = $1 AND principal = $2 AND conversation_id = $3"

# The first metadata stay, and trust is joined: the same bytes from a worse source are worse.
_PUT: Final = """
INSERT INTO artifacts (COLUMNS, content)
VALUES ($4, $1, $2, $3, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)
ON CONFLICT (tenant, principal, conversation_id, namespace, sha256)
    DO UPDATE SET trust = greatest(artifacts.trust, excluded.trust)
RETURNING COLUMNS""".replace("COLUMNS", _COLUMNS)
_REF: Final = "SELECT COLUMNS FROM artifacts WHERE SCOPE AND id = $4".replace(
    "COLUMNS", _COLUMNS
).replace("SCOPE", _SCOPE)
_CONTENT: Final = "SELECT sha256, content FROM artifacts WHERE SCOPE AND id = $4".replace(
    "SCOPE", _SCOPE
)
_DELETE: Final = "DELETE FROM artifacts WHERE SCOPE AND id = $4".replace("SCOPE", _SCOPE)
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


class StoreArtifacts:
    """Artifacts over a pool, or over a transaction's connection."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    async def put(self, identity: Identity, new: NewArtifact) -> tuple[ArtifactRef, bool]:
        """Keep a file; with False the scope has it already, and only its trust is joined."""
        scope = _scope(identity)
        digest, found = await asyncio.to_thread(_looked_at, new.content)
        with storing():
            (row,) = await self._reader.fetch(
                _PUT,
                *scope,
                new.id,
                new.namespace,
                digest,
                escape(new.mime),
                found,
                len(new.content),
                None if new.filename is None else escape(new.filename),
                new.tool,
                identity.run or None,
                escape(new.by),
                int(new.trust),
                new.at,
                new.content,
            )
        ref = _ref(row)
        return ref, ref.id == new.id

    async def get_ref(self, identity: Identity, artifact_id: str) -> ArtifactRef | None:
        """The file without its bytes."""
        scope = _scope(identity)
        with storing():
            row = await self._reader.fetchrow(_REF, *scope, escape(artifact_id))
        return None if row is None else _ref(row)

    async def get(self, identity: Identity, artifact_id: str) -> bytes | None:
        """The bytes. Raises ArtifactCorrupt if they are not those that were kept."""
        scope = _scope(identity)
        with storing():
            row = await self._reader.fetchrow(_CONTENT, *scope, escape(artifact_id))
        if row is None:
            return None
        content: bytes = row["content"]
        if await asyncio.to_thread(_digest, content) != row["sha256"]:
            raise ArtifactCorrupt(f"{artifact_id!r} has other bytes than were kept")
        return content

    async def exists(self, identity: Identity, artifact_id: str) -> bool:
        """Whether the scope holds the file."""
        return await self.get_ref(identity, artifact_id) is not None

    async def delete(self, identity: Identity, artifact_id: str) -> None:
        """Let go of a file; of one that is not there as well."""
        scope = _scope(identity)
        with storing():
            await self._reader.execute(_DELETE, *scope, escape(artifact_id))

    async def aclose(self) -> None:
        """Nothing of it outlives a call; connections are the pool's."""

    async def find(self, tenant: str, artifact_id: str) -> ArtifactRef | None:
        """The tenant's file of that id; whether it is in reach is the caller's business."""
        with storing():
            row = await self._reader.fetchrow(_FIND, escape(tenant), escape(artifact_id))
        return None if row is None else _ref(row)

    async def page(self, tenant: str, conversation_id: str, page: Page) -> list[ArtifactRef]:
        """The conversation's files, newest first; the cursor is an id."""
        before = None if page.before is None else escape(page.before)
        where = (escape(tenant), escape(conversation_id))
        with storing():
            rows = await self._reader.fetch(_PAGE, *where, before, page.limit)
        return [_ref(row) for row in rows]

    async def list(self, identity: Identity) -> list[ArtifactRef]:
        """The session's files, newest first, those of one moment by id."""
        scope = _scope(identity)
        with storing():
            rows = await self._reader.fetch(_LIST, *scope)
        return [_ref(row) for row in rows]


def _scope(identity: Identity) -> tuple[str, str, str]:
    try:
        identity.require()
    except IdentityRequired:
        log.warning("artifact.identity_rejected")
        raise
    return escape(identity.tenant), escape(identity.user), escape(identity.session)


def _looked_at(content: bytes) -> tuple[str, str]:
    return _digest(content), sniffed(content)


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


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
