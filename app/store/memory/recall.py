"""Turns found by meaning: what embeds them, where their vectors lie, and the search over both."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from app.errors import Misconfigured
from app.ids import Identity
from app.runctx.memory import EmptyQuery, SearchResult, TurnHit
from app.store.memory.turns import TURN_COLUMNS, embedded, scope_of, turn_of, unindexed
from app.store.memory.vectors import DEFAULT_TOP_K, StoreVectors
from app.store.server.connections import storing
from app.store.server.row_security import OneTenant
from app.store.texts import escape, unescape

if TYPE_CHECKING:
    from collections.abc import Sequence

    import asyncpg

    from app.runctx.memory import ConversationTurn, RecallScope
    from app.runctx.ports import Embedder
    from app.store.memory.vectors import Near
    from app.store.server.connections import Connection, Pool
    from app.store.server.row_security import EveryTenant, Reader

# A turn without a time is older than all that have one.
_BEGINNING: Final = datetime(1, 1, 1, tzinfo=UTC)

_FOUND: Final = """
SELECT COLUMNS FROM memory_turns
WHERE tenant = $1 AND principal = $2 AND turn_id = ANY($3::text[])""".replace(
    "COLUMNS", TURN_COLUMNS
)
# All tenants' turns that this embedder has not embedded, a page at a time.
_WITHOUT_VECTOR: Final = """
SELECT tenant, principal, COLUMNS FROM memory_turns
WHERE (tenant, turn_id) > ($1, $2) AND embedded_by <> $3
ORDER BY tenant, turn_id LIMIT 100""".replace("COLUMNS", TURN_COLUMNS)


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

    @staticmethod
    async def made(pool: Pool, embedder: Embedder) -> StoreRecall:
        """The search, its table made if need be. Raises Misconfigured where it cannot be."""
        recall = StoreRecall(pool, embedder)
        await recall._vectors.make()
        await recall._vectors.prepare()
        return recall

    async def vector(self, identity: Identity, turn: ConversationTurn) -> Sequence[float] | None:
        """The turn's vector, None where there is nothing to embed. Raises EmbeddingFailed."""
        if not turn.embedded_text:
            return None
        [vector] = await self._embedder.embed([turn.embedded_text], identity=identity)
        return vector

    async def keep(
        self,
        connection: Connection,
        identity: Identity,
        turn: ConversationTurn,
        vector: Sequence[float],
    ) -> bool:
        """Store the vector of a stored turn; False where the turn was forgotten meanwhile."""
        scope, turn_id = scope_of(identity), turn.turn_id
        if not await embedded(connection, scope, turn_id, self._embedder.id):
            return False
        await self._vectors.put(
            connection, identity, turn_id, at=turn.at or _BEGINNING, vector=vector
        )
        return True

    async def rebuild(self, everyone: EveryTenant) -> int:
        """Embed every turn that this embedder has not embedded; how many there were.

        A turn that is forgotten meanwhile is passed over. Raises EmbeddingFailed.
        """
        done, last = 0, ("", "")
        while rows := await self._without_vector(everyone, last):
            for row in rows:
                last = (row["tenant"], row["turn_id"])
                done += await self._embedded_anew(row)
        return done

    async def _without_vector(
        self, everyone: EveryTenant, last: tuple[str, str]
    ) -> Sequence[asyncpg.Record]:
        async with everyone.borrowed() as connection:
            return await connection.fetch(_WITHOUT_VECTOR, *last, self._embedder.id)

    async def _embedded_anew(self, row: asyncpg.Record) -> bool:
        turn = turn_of(row)
        owner = Identity(unescape(row["tenant"]), unescape(row["principal"]), turn.session)
        vector = await self.vector(owner, turn)
        if vector is None:
            return False
        async with OneTenant(self._pool, row["tenant"]).transaction() as connection:
            return await self.keep(connection, owner, turn, vector)

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
        rows = OneTenant(self._pool, owner[0])
        with storing():
            missing = await unindexed(rows, owner, session, self._embedder.id)
            hits = await _hits(rows, owner, near)
        return SearchResult(hits, most, missing)


async def _hits(reader: Reader, owner: tuple[str, str], near: Sequence[Near]) -> list[TurnHit]:
    """The turns that were near, in that order, but those that were forgotten meanwhile."""
    rows = await reader.fetch(_FOUND, *owner, [one.turn_id for one in near])
    turns = {row["turn_id"]: turn_of(row) for row in rows}
    return [TurnHit(turns[one.turn_id], one.score) for one in near if one.turn_id in turns]
