"""The turns of sessions as rows: their SQL, and values of them. Texts are kept as bytes.

Whoever writes holds the session (`hold`), so that numbers have no gap and no run writes twice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import structlog

from app.policy.taint import Trust
from app.runctx.identity import require_identity
from app.runctx.memory import ConversationTurn, EmbedderMismatch
from app.store.texts import escape, escape_all, unescape

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    import asyncpg

    from app.ids import Identity
    from app.store.server.connections import Connection
    from app.store.server.row_security import Reader

    Scope = tuple[str, str, str]

_SCOPE: Final = "tenant = $1 AND principal = $2 AND conversation_id = $3"
TURN_COLUMNS: Final = """seq, turn_id, run_id, conversation_id, user_message, assistant_response,
    trust, digest, artifacts_shown, artifacts_hidden, at"""
TOKENS: Final = "octet_length(user_message) / 4 + octet_length(assistant_response) / 4 + 2"

_HOLD: Final = "SELECT pg_advisory_xact_lock(hashtextextended('turngate.memory:' || $1, 0))"
_KNOWN: Final = (
    "SELECT turn_id FROM memory_turns WHERE SCOPE AND run_id = $4 AND run_id <> ''".replace(
        "SCOPE", _SCOPE
    )
)
# Retention may have taken the last turn; a number that was folded is not given again.
_ADD: Final = """
INSERT INTO memory_turns (tenant, principal, conversation_id, seq, turn_id, run_id, user_message,
    assistant_response, trust, digest, artifacts_shown, artifacts_hidden, at, embedded_by)
SELECT $1, $2, $3, coalesce($14, 1 + greatest(
        (SELECT max(seq) FROM memory_turns WHERE SCOPE),
        (SELECT max(folded_through) FROM memory_state WHERE SCOPE), 0)),
    coalesce(nullif($4, ''), 'mem_' || gen_random_uuid()), $5, $6, $7, $8, $9, $10, $11, $12, $13
RETURNING greatest(seq, (SELECT max(seq) FROM memory_turns WHERE SCOPE)) AS newest,
    turn_id""".replace("SCOPE", _SCOPE)
# No two turns have one number, not even within a statement, so they move by way of negative ones.
_FIRST_LATER: Final = "SELECT min(seq) FROM memory_turns WHERE SCOPE AND at > $4".replace(
    "SCOPE", _SCOPE
)
_MOVE_AWAY: Final = "UPDATE memory_turns SET seq = -1 - seq WHERE SCOPE AND seq >= $4".replace(
    "SCOPE", _SCOPE
)
_MOVE_BACK: Final = "UPDATE memory_turns SET seq = -seq WHERE SCOPE AND seq < 0".replace(
    "SCOPE", _SCOPE
)
_NEWEST: Final = """
SELECT COLUMNS FROM memory_turns WHERE SCOPE ORDER BY seq DESC LIMIT $4""".replace(
    "SCOPE", _SCOPE
).replace("COLUMNS", TURN_COLUMNS)
_WITHIN: Final = (
    """
SELECT COLUMNS FROM (
    SELECT *, sum(TOKENS) OVER (ORDER BY seq DESC) AS so_far FROM memory_turns WHERE SCOPE
) AS summed WHERE so_far <= $4 ORDER BY seq DESC""".replace("SCOPE", _SCOPE)
    .replace("COLUMNS", TURN_COLUMNS)
    .replace("TOKENS", TOKENS)
)
_RANGE: Final = """
SELECT COLUMNS FROM memory_turns
WHERE SCOPE AND seq BETWEEN $4 AND $5 ORDER BY seq DESC""".replace("SCOPE", _SCOPE).replace(
    "COLUMNS", TURN_COLUMNS
)
_COUNT: Final = """
SELECT count(*) FROM memory_turns
WHERE SCOPE AND seq > $4 AND ($5::bigint IS NULL OR seq < $5)""".replace("SCOPE", _SCOPE)
_EMBEDDED: Final = """
UPDATE memory_turns SET embedded_by = $5
WHERE SCOPE AND turn_id = $4 RETURNING turn_id""".replace("SCOPE", _SCOPE)
# Ranges of the index beside the embedder's own, which is nearly all of it.
_UNINDEXED: Final = """
SELECT (SELECT count(*) FROM memory_turns WHERE OWNED AND embedded_by = '') AS missing, coalesce(
    (SELECT min(embedded_by) FROM memory_turns WHERE OWNED AND embedded_by > $4),
    (SELECT max(embedded_by) FROM memory_turns
        WHERE OWNED AND embedded_by > '' AND embedded_by < $4)) AS other""".replace(
    "OWNED", "tenant = $1 AND principal = $2 AND ($3::text IS NULL OR conversation_id = $3)"
)
_TAKEN: Final = "SELECT turn_id FROM memory_turns WHERE tenant = $1 AND turn_id = ANY($2::text[])"
_FORGET: Final = "DELETE FROM memory_turns WHERE SCOPE".replace("SCOPE", _SCOPE)
_FORGET_STATE: Final = "DELETE FROM memory_state WHERE SCOPE".replace("SCOPE", _SCOPE)
# A row of its own, for `none` has no other, says up to which event of the log all is forgotten.
_FORGOTTEN: Final = """
INSERT INTO memory_state (tenant, principal, conversation_id, strategy, model, summary,
    summary_trust, folded_through, health, failures, pending, forgotten_through)
SELECT $1, $2, $3, 'none', '', '', 0, 0, 'healthy', 0, '[]', head_seq
FROM conversations WHERE tenant = $1 AND id = $3"""
# The row stays as it is until the turn is stored: another end waits, and then finds the turn.
_STATUS: Final = "SELECT status FROM runs WHERE tenant = $1 AND id = $2 FOR SHARE"
_FORGET_RUN: Final = (
    "DELETE FROM memory_turns WHERE SCOPE AND run_id = $4 RETURNING turn_id".replace(
        "SCOPE", _SCOPE
    )
)
_FORGET_VECTOR: Final = "DELETE FROM memory_vectors WHERE tenant = $1 AND turn_id = $2"
_FORGET_OLD: Final = """
WITH old AS MATERIALIZED (
    SELECT tenant, turn_id FROM memory_turns WHERE created_at < $1
    ORDER BY created_at LIMIT $2 FOR UPDATE SKIP LOCKED
)
DELETE FROM memory_turns t USING old WHERE t.tenant = old.tenant AND t.turn_id = old.turn_id
RETURNING t.tenant, t.principal, t.conversation_id, t.turn_id"""
# A summary goes with the last of its turns.
_FORGET_THEIR_STATES: Final = """
DELETE FROM memory_state s
USING unnest($1::text[], $2::text[], $3::text[]) AS gone (tenant, principal, conversation_id)
WHERE s.tenant = gone.tenant AND s.principal = gone.principal
    AND s.conversation_id = gone.conversation_id AND s.forgotten_through = 0
    AND NOT EXISTS (SELECT FROM memory_turns t WHERE t.tenant = s.tenant
        AND t.principal = s.principal AND t.conversation_id = s.conversation_id)"""
_FORGET_THEIR_VECTORS: Final = """
DELETE FROM memory_vectors v USING unnest($1::text[], $2::text[]) AS gone (tenant, turn_id)
WHERE v.tenant = gone.tenant AND v.turn_id = gone.turn_id"""
_HAS_VECTORS: Final = "SELECT to_regclass('memory_vectors') IS NOT NULL"
_FORGET_VECTORS: Final = "DELETE FROM memory_vectors WHERE SCOPE".replace("SCOPE", _SCOPE)

log = structlog.get_logger(__name__)


def scope_of(identity: Identity) -> Scope:
    """The columns of a session. Raises IdentityRequired, with a notice."""
    require_identity(identity, log, "memory.identity_rejected")
    return escape(identity.tenant), escape(identity.user), escape(identity.session)


async def hold(connection: Connection, scope: Scope) -> None:
    """Nobody else changes the session's memory before this transaction ends."""
    await connection.execute(_HOLD, "\x1f".join(scope))


async def known(connection: Connection, scope: Scope, run: str) -> str | None:
    """The id of the turn that the run has written already."""
    found: str | None = await connection.fetchval(_KNOWN, *scope, escape(run))
    return None if found is None else unescape(found)


async def first_later(connection: Connection, scope: Scope, at: datetime | None) -> int | None:
    """The number of the first turn of a later time; None for a time without one."""
    found: int | None = await connection.fetchval(_FIRST_LATER, *scope, at)
    return found


async def make_room(connection: Connection, scope: Scope, place: int) -> None:
    """Nobody has that number any more: turns from there on move by one."""
    await connection.execute(_MOVE_AWAY, *scope, place)
    await connection.execute(_MOVE_BACK, *scope)


async def added(
    connection: Connection, scope: Scope, turn: ConversationTurn, *, place: int | None = None
) -> tuple[int, str]:
    """Write a turn as the session's newest, or in its place; the newest number, and its id."""
    row = await connection.fetchrow(
        _ADD,
        *scope,
        escape(turn.turn_id),
        escape(turn.run),
        to_octets(turn.user_message),
        to_octets(turn.assistant_response),
        int(turn.trust),
        escape(turn.digest),
        escape_all(turn.artifacts_shown),
        escape_all(turn.artifacts_hidden),
        turn.at,
        "" if turn.embedded_text else None,
        place,
    )
    assert row is not None  # noqa: S101 - an INSERT of one row returns it or raises
    return row["newest"], unescape(row["turn_id"])


async def newest(
    connection: Reader, scope: Scope, *, most: int | None = None
) -> list[tuple[int, ConversationTurn]]:
    """The newest turns with their numbers, oldest first; without a bound all of them."""
    return _turns(await connection.fetch(_NEWEST, *scope, most))


async def within(connection: Reader, scope: Scope, tokens: int) -> list[ConversationTurn]:
    """The longest run of newest turns whose estimates sum to at most `tokens`, oldest first."""
    return [turn for _, turn in _turns(await connection.fetch(_WITHIN, *scope, tokens))]


async def between(
    connection: Reader, scope: Scope, first: int, last: int
) -> list[ConversationTurn]:
    """The turns of these numbers, both included, oldest first."""
    return [turn for _, turn in _turns(await connection.fetch(_RANGE, *scope, first, last))]


async def count_between(connection: Reader, scope: Scope, after: int, before: int | None) -> int:
    """How many turns lie between these numbers, which do not count; None is no bound."""
    found: int = await connection.fetchval(_COUNT, *scope, after, before)
    return found


async def embedded(connection: Connection, scope: Scope, turn_id: str, embedder: str) -> bool:
    """Say whose vector the turn has, and keep the turn as it is; False where it is not there."""
    found = await connection.fetchval(_EMBEDDED, *scope, escape(turn_id), embedder)
    return found is not None


async def unindexed(
    connection: Reader, owner: tuple[str, str], session: str | None, embedder: str
) -> int:
    """How many turns have text and no vector yet; without a session, of all.

    Raises EmbedderMismatch where one has a vector that only another embedder compares.
    """
    found = await connection.fetchrow(_UNINDEXED, *owner, session, embedder)
    assert found is not None  # noqa: S101 - a SELECT of two values returns a row
    if found["other"] is not None:
        raise EmbedderMismatch(embedder, found["other"])
    missing: int = found["missing"]
    return missing


async def taken(connection: Connection, scope: Scope, ids: Sequence[str]) -> set[str]:
    """Which of the ids the tenant's turns have already."""
    rows = await connection.fetch(_TAKEN, scope[0], [escape(one) for one in ids])
    return {unescape(row["turn_id"]) for row in rows}


async def forget(connection: Connection, scope: Scope) -> None:
    """Delete turns, vectors, summaries and queues of a session, and keep up to when that was."""
    await connection.execute(_FORGET, *scope)
    await connection.execute(_FORGET_STATE, *scope)
    await connection.execute(_FORGOTTEN, *scope)
    if await connection.fetchval(_HAS_VECTORS):
        await connection.execute(_FORGET_VECTORS, *scope)


async def is_fruitless(connection: Connection, scope: Scope, run: str) -> bool:
    """Whether the run ended without an answer, as it will not before this transaction ends."""
    status: str | None = await connection.fetchval(_STATUS, scope[0], escape(run))
    return status in ("cancelled", "failed")


async def forget_run(connection: Connection, scope: Scope, run: str) -> None:
    """Delete the turn of a run, and its vector, if there is one."""
    turn_id = await connection.fetchval(_FORGET_RUN, *scope, escape(run))
    if turn_id is not None and await connection.fetchval(_HAS_VECTORS):
        await connection.execute(_FORGET_VECTOR, scope[0], turn_id)


async def forget_old(connection: Connection, before: datetime, limit: int) -> None:
    """Delete turns that were stored before then, and what was made of sessions without any."""
    rows = await connection.fetch(_FORGET_OLD, before, limit)
    if not rows:
        return
    tenants, principals, sessions, ids = (list(column) for column in zip(*rows, strict=True))
    await connection.execute(_FORGET_THEIR_STATES, tenants, principals, sessions)
    if await connection.fetchval(_HAS_VECTORS):
        await connection.execute(_FORGET_THEIR_VECTORS, tenants, ids)


def turn_of(row: asyncpg.Record) -> ConversationTurn:
    """The value of a row that has `TURN_COLUMNS`."""
    return ConversationTurn(
        user_message=from_octets(row["user_message"]),
        assistant_response=from_octets(row["assistant_response"]),
        at=row["at"],
        trust=Trust.from_byte(row["trust"]),
        turn_id=unescape(row["turn_id"]),
        run=unescape(row["run_id"]),
        session=unescape(row["conversation_id"]),
        digest=unescape(row["digest"]),
        artifacts_shown=tuple(map(unescape, row["artifacts_shown"])),
        artifacts_hidden=tuple(map(unescape, row["artifacts_hidden"])),
    )


def to_octets(text: str) -> bytes:
    """Any text as bytes, NUL and lone surrogates included."""
    return text.encode(errors="surrogatepass")


def from_octets(octets: bytes) -> str:
    """The text that these bytes were."""
    return octets.decode(errors="surrogatepass")


def estimate(text: str) -> int:
    """About how many tokens a text takes; an empty one none."""
    return len(to_octets(text)) // 4 + 1 if text else 0


def turn_tokens(turn: ConversationTurn) -> int:
    """About how many tokens a turn takes; as `TOKENS`, where an empty text counts one."""
    return sum(
        len(to_octets(text)) // 4 + 1 for text in (turn.user_message, turn.assistant_response)
    )


def _turns(rows: Sequence[asyncpg.Record]) -> list[tuple[int, ConversationTurn]]:
    return [(row["seq"], turn_of(row)) for row in reversed(rows)]
