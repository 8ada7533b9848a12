"""Vectors of remembered turns, and the nearest of them within one identity (run-context.md 5.3).

The identity comes first: whoever asked an index and filtered afterwards would lose the turns of a
small tenant without an error. So up to `EXACT_ROWS` rows are all compared. Above that the index is
read on until enough of its rows are in scope, and where it gives up, all are compared after all.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from app.errors import Misconfigured
from app.runctx.memory import EmbedderMismatch
from app.store.memory.turns import scope_of
from app.store.server.connections import borrowed, storing
from app.store.server.row_security import OneTenant
from app.store.texts import escape

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    import asyncpg

    from app.ids import Identity
    from app.runctx.memory import RecallScope
    from app.store.server.connections import Connection, Pool

EXACT_ROWS: Final = 20_000
DEFAULT_TOP_K: Final = 5
_LEAST_EF: Final = 40

_HAS_TABLE: Final = "SELECT to_regclass('memory_vectors') IS NOT NULL"
# As the migrations make it, for a database that got the extension after them.
_MAKE: Final = """
DO $$ BEGIN
IF to_regclass('memory_turns') IS NULL
        OR NOT EXISTS (SELECT FROM pg_available_extensions WHERE name = 'vector') THEN
    RETURN;
END IF;
CREATE EXTENSION IF NOT EXISTS vector;
CREATE TABLE IF NOT EXISTS memory_vectors (
    tenant text NOT NULL,
    turn_id text NOT NULL,
    principal text NOT NULL,
    conversation_id text NOT NULL,
    at timestamptz NOT NULL,
    embedder text NOT NULL,
    embedding vector NOT NULL,
    CONSTRAINT pk_memory_vectors PRIMARY KEY (tenant, turn_id),
    CONSTRAINT ck_memory_vectors_turn_id_not_empty CHECK (turn_id <> '')
);
CREATE INDEX IF NOT EXISTS ix_memory_vectors_scope ON memory_vectors
    (tenant, principal, conversation_id, embedder);
PERFORM secure_tenant_tables();
EXCEPTION WHEN insufficient_privilege THEN NULL;
END $$"""
_LOCK: Final = "SELECT pg_advisory_xact_lock(hashtextextended('turngate.vectors', 0))"

# The embedder is written out, for a plan that knows it as a parameter finds no partial index.
_INDEX: Final = "SELECT index_memory_vectors($1, $2, $3)"
_PUT: Final = """
INSERT INTO memory_vectors
    (tenant, turn_id, principal, conversation_id, at, embedder, embedding)
VALUES ($1, $4, $2, $3, $5, $6, $7::real[])
ON CONFLICT (tenant, turn_id) DO UPDATE
    SET embedder = excluded.embedder, embedding = excluded.embedding
    WHERE memory_vectors.principal = excluded.principal
        AND memory_vectors.conversation_id = excluded.conversation_id"""
# Whose turns: of the session, or of the user in all sessions. One condition for both would be kept
# as a plan that knows neither, and reads all of the user's rows to find those of a session.
_OF_SESSION: Final = "tenant = $1 AND principal = $2 AND conversation_id = $3"
_OF_USER: Final = "tenant = $1 AND principal = $2 AND $3::text IS NULL"
# Vectors are counted only where the numbers of the session's turns do not say that they are few.
_ARE_MANY: Final = """
SELECT ($3::text IS NULL OR (SELECT coalesce(max(seq) - min(seq) >= $5, true)
        FROM memory_turns WHERE tenant = $1 AND principal = $2 AND conversation_id = $3))
    AND $5 < (SELECT count(*) FROM (SELECT FROM memory_vectors
        WHERE {scope} AND embedder = $4 LIMIT $5 + 1) AS few) AS are_many"""
_OTHER: Final = "SELECT embedder FROM memory_vectors WHERE {scope} LIMIT 1"
# The subquery reads the vector once: as a parameter it may be read again for each row. No index
# knows the column as it is, so this compares all of it. The nearest of any few rows are at least as
# far as the nearest of all, so most rows are left out before they are handed on and sorted, which
# takes nearly as long as comparing them.
_EXACT: Final = """
WITH asked AS MATERIALIZED (SELECT $4::real[]::vector AS vector)
SELECT turn_id, embedding <=> (SELECT vector FROM asked) AS distance
FROM memory_vectors WHERE {scope} AND embedder = {embedder}
    AND embedding <=> (SELECT vector FROM asked) <= (
        SELECT max(distance) FROM (SELECT distance FROM (
            SELECT embedding <=> (SELECT vector FROM asked) AS distance
            FROM memory_vectors WHERE {scope} AND embedder = {embedder} LIMIT 40 * $5
        ) AS few ORDER BY distance LIMIT $5) AS nearest_of_few)
ORDER BY distance, at DESC, turn_id LIMIT $5"""
_INDEXED: Final = """
SELECT turn_id, distance FROM (
    SELECT turn_id, at, embedding::vector({dimension}) <=> (SELECT $4::real[]::vector) AS distance
    FROM memory_vectors WHERE {scope} AND embedder = {embedder} ORDER BY distance LIMIT $5
) AS near ORDER BY distance, at DESC, turn_id"""
_SCANNING: Final = """
SELECT set_config('hnsw.iterative_scan', 'strict_order', true),
    set_config('hnsw.ef_search', $1, true)"""


@dataclass(frozen=True, slots=True)
class Near:
    """A turn and its cosine to what was asked."""

    turn_id: str
    score: float


class StoreVectors:
    """The vectors of one embedder."""

    def __init__(
        self, pool: Pool, embedder: str, *, dimension: int, exact_rows: int = EXACT_ROWS
    ) -> None:
        self._pool = pool
        self._embedder = embedder
        self._exact_rows = exact_rows
        self._dimension = dimension
        self._literals = {"embedder": _quoted(embedder), "dimension": int(dimension)}

    async def make(self) -> None:
        """Make the table of vectors where it is not there and can be."""
        async with borrowed(self._pool) as connection, connection.transaction():
            await connection.execute(_LOCK)
            await connection.execute(_MAKE)

    async def prepare(self) -> None:
        """Make the embedder's index. Raises Misconfigured for a database without vectors."""
        # Names are cut at 63 bytes, so an embedder's own might not be told from another's.
        mark = hashlib.sha256(self._embedder.encode()).hexdigest()[:16]
        async with borrowed(self._pool) as connection, connection.transaction():
            if not await connection.fetchval(_HAS_TABLE):
                raise Misconfigured("memory by meaning needs the extension vector (pgvector)")
            await connection.execute(_LOCK)
            name = f"ix_memory_vectors_{mark}"
            await connection.execute(_INDEX, name, self._embedder, self._dimension)

    async def put(
        self,
        connection: Connection,
        identity: Identity,
        turn_id: str,
        *,
        at: datetime,
        vector: Sequence[float],
    ) -> None:
        """Keep a turn's vector, in place of one by another embedder; in the caller's transaction.

        A turn of another session is left as it is.
        """
        scope = _scope(identity, "session")
        with storing():
            await connection.execute(_PUT, *scope, escape(turn_id), at, self._embedder, vector)

    async def nearest(
        self, identity: Identity, vector: Sequence[float], *, top_k: int, scope: RecallScope
    ) -> list[Near]:
        """The nearest turns, equal ones newest first, then by id; a `top_k` of 0 or less is 5.

        Raises IdentityRequired, EmbedderMismatch.
        """
        where, most = _scope(identity, scope), top_k if top_k > 0 else DEFAULT_TOP_K
        asked = (*where, vector, most)
        tenant = OneTenant(self._pool, where[0])
        with storing():
            found: Sequence[asyncpg.Record] = ()
            if await tenant.fetchval(
                self._within(_ARE_MANY, scope), *where, self._embedder, self._exact_rows
            ):
                found = await self._by_index(tenant, asked, scope)
            if len(found) < most:
                found = await tenant.fetch(self._within(_EXACT, scope), *asked)
            if not found:
                await self._require_none(tenant, where, scope)
        return [Near(row["turn_id"], 1.0 - row["distance"]) for row in found]

    async def _by_index(
        self,
        tenant: OneTenant,
        asked: tuple[str, str, str | None, Sequence[float], int],
        scope: RecallScope,
    ) -> Sequence[asyncpg.Record]:
        async with tenant.transaction() as connection:
            await connection.execute(_SCANNING, str(max(_LEAST_EF, 4 * asked[-1])))
            return await connection.fetch(self._within(_INDEXED, scope), *asked)

    async def _require_none(
        self, tenant: OneTenant, where: tuple[str, str, str | None], scope: RecallScope
    ) -> None:
        other = await tenant.fetchval(self._within(_OTHER, scope), *where)
        if other is not None:
            raise EmbedderMismatch(self._embedder, other)

    def _within(self, statement: str, scope: RecallScope) -> str:
        turns = _OF_SESSION if scope == "session" else _OF_USER
        return statement.format(scope=turns, **self._literals)


def _scope(identity: Identity, scope: RecallScope) -> tuple[str, str, str | None]:
    tenant, user, session = scope_of(identity)
    return tenant, user, session if scope == "session" else None


def _quoted(text: str) -> str:
    """A literal of SQL: with standard strings, the quote is all that needs doubling."""
    return "'" + text.replace("'", "''") + "'"
