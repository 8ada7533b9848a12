"""Turns found by meaning: what embeds them, where their vectors lie, and the search over both."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from app.errors import Misconfigured
from app.ids import Identity
from app.runctx.memory import EmptyQuery, SearchResult, TurnHit
from app.store.connections import borrowed
from app.store.memory_turns import TURN_COLUMNS, turn_of
from app.store.texts import escape, unescape
from app.store.vectors import DEFAULT_TOP_K, StoreVectors

if TYPE_CHECKING:
    from collections.abc import Sequence

    import asyncpg

    from app.runctx.memory import ConversationTurn, RecallScope
    from app.runctx.ports import Embedder
    from app.store.connections import Connection, Pool
    from app.store.vectors import Near

# A turn without a time is older than all that have one.
_BEGINNING: Final = datetime(1, 1, 1, tzinfo=UTC)

_FOUND: Final = """
SELECT COLUMNS FROM memory_turns
WHERE tenant = $1 AND principal = $2 AND turn_id = ANY($3::text[])""".replace(
    "COLUMNS", TURN_COLUMNS
)
# What is blank to `embedded_text`, as far as bytes tell: such a turn never has a vector.
NOT_INDEXED: Final = r"""
octet_length(btrim(user_message || assistant_response, '\x090a0b0c0d20'::bytea)) > 0
AND NOT EXISTS (SELECT FROM memory_vectors AS vectors
    WHERE vectors.tenant = turns.tenant AND vectors.turn_id = turns.turn_id
        AND vectors.embedder = EMBEDDER)"""
_UNINDEXED: Final = """
SELECT count(*) FROM memory_turns AS turns
WHERE tenant = $1 AND principal = $2 AND ($3::text IS NULL OR conversation_id = $3)
    AND """ + NOT_INDEXED.replace("EMBEDDER", "$4")

# Keeps a turn from being forgotten while its vector is stored.
_HOLD_TURN: Final = """
SELECT 1 FROM memory_turns WHERE tenant = $1 AND turn_id = $2 FOR SHARE"""
# All tenants' turns that this embedder has not embedded, a page at a time.
_WITHOUT_VECTOR: Final = (
    """
SELECT tenant, principal, COLUMNS FROM memory_turns AS turns
WHERE (tenant, turn_id) > ($1, $2) AND """
    + NOT_INDEXED.replace("EMBEDDER", "$3")
    + " ORDER BY tenant, turn_id LIMIT 100"
).replace("COLUMNS", TURN_COLUMNS)


class StoreRecall:
    """The search by meaning with one embedder."""

    def __init__(self, pool: Pool, embedder: Embedder) -> None:
        self._pool = pool
        self._embedder = embedder
        self._vectors = StoreVectors(pool, embedder.id, dimension=embedder.dimension)

    @staticmethod
    async def opened(pool: Pool, embedder: Embedder) -> StoreRecall | None:
        """The search, ready to use; None in a database without vectors."""
        recall = StoreRecall(pool, embedder)
        try:
            await recall._vectors.prepare()
        except Misconfigured:
            return None
        return recall

    async def vector(self, identity: Identity, turn: ConversationTurn) -> Sequence[float] | None:
        """The turn's vector, None where there is nothing to embed. Raises EmbeddingFailed."""
        text = embedded_text(turn)
        if not text:
            return None
        [vector] = await self._embedder.embed([text], identity=identity)
        return vector

    async def keep(
        self,
        connection: Connection,
        identity: Identity,
        turn: ConversationTurn,
        vector: Sequence[float],
    ) -> None:
        """Store the vector of a turn in the transaction that stores the turn."""
        await self._vectors.put(
            connection, identity, turn.turn_id, at=turn.at or _BEGINNING, vector=vector
        )

    async def rebuild(self) -> int:
        """Embed every turn that this embedder has not embedded; how many there were.

        A turn that is forgotten meanwhile is passed over. Raises EmbeddingFailed.
        """
        done, last = 0, ("", "")
        while rows := await self._without_vector(last):
            for row in rows:
                last = (row["tenant"], row["turn_id"])
                done += await self._embedded_anew(row)
        return done

    async def _without_vector(self, last: tuple[str, str]) -> Sequence[asyncpg.Record]:
        async with borrowed(self._pool) as connection:
            return await connection.fetch(_WITHOUT_VECTOR, *last, self._embedder.id)

    async def _embedded_anew(self, row: asyncpg.Record) -> bool:
        turn = turn_of(row)
        owner = Identity(unescape(row["tenant"]), unescape(row["principal"]), turn.session)
        vector = await self.vector(owner, turn)
        if vector is None:
            return False
        async with borrowed(self._pool) as connection, connection.transaction():
            if await connection.fetchval(_HOLD_TURN, row["tenant"], row["turn_id"]) is None:
                return False
            await self.keep(connection, owner, turn, vector)
        return True

    async def search(
        self, identity: Identity, query: str, *, top_k: int, scope: RecallScope
    ) -> SearchResult:
        """Turns by meaning, best first. Raises EmptyQuery, EmbeddingFailed, EmbedderMismatch."""
        if not query.strip():
            raise EmptyQuery("there is nothing to search for")
        most = top_k if top_k > 0 else DEFAULT_TOP_K
        [vector] = await self._embedder.embed([query], identity=identity)
        near = await self._vectors.nearest(identity, vector, top_k=most, scope=scope)
        owner = escape(identity.tenant), escape(identity.user)
        session = escape(identity.session) if scope == "session" else None
        async with borrowed(self._pool) as connection:
            unindexed = await connection.fetchval(_UNINDEXED, *owner, session, self._embedder.id)
            hits = await _hits(connection, owner, near)
        return SearchResult(hits, most, unindexed)


def embedded_text(turn: ConversationTurn) -> str:
    """What of a turn is embedded: both sides, or the one that is not blank; else nothing."""
    sides = (turn.user_message, turn.assistant_response)
    return "\n".join(side for side in sides if side.strip())


async def _hits(
    connection: Connection, owner: tuple[str, str], near: Sequence[Near]
) -> list[TurnHit]:
    """The turns that were near, in that order, but those that were forgotten meanwhile."""
    rows = await connection.fetch(_FOUND, *owner, [one.turn_id for one in near])
    turns = {row["turn_id"]: turn_of(row) for row in rows}
    return [TurnHit(turns[one.turn_id], one.score) for one in near if one.turn_id in turns]
