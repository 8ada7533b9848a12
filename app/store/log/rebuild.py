"""Rebuilding projections from the log, to compare them with what is stored or to put it right.

The log is replayed through the very functions and statements of the append, into temporary tables
that stand before the real ones in the search path. So the connection is one of its own, and it ends
with the rebuild: a statement prepared on it means the copies.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import orjson

from app.log.catalogue import UnknownEventType, parse
from app.log.envelope import wire_time
from app.store.log.append import write_later_rounds
from app.store.log.numbering import Tail
from app.store.projections.changes import rounds
from app.store.projections.fact import Fact
from app.store.projections.rules import project
from app.store.rows import records
from app.store.server.connections import SESSION, connect
from app.store.server.poolers import address_of
from app.store.server.row_security import EVERY_TENANT, WIDEN, every_tenant
from app.store.texts import escape

if TYPE_CHECKING:
    import asyncpg

    from app.store.projections.changes import Change

    Connection = asyncpg.Connection[asyncpg.Record]

PAGE: Final = 1000


@dataclass(frozen=True, slots=True)
class Table:
    """A projected table: its key, and for `conversations` those columns that are projected."""

    name: str
    key: tuple[str, ...]
    columns: str = "*"
    conversation: str = "conversation_id"


_HEAD: Final = "principal, participants, title, metadata, head_seq, head_hash, tainted, sealed_seq"
CONVERSATIONS: Final = Table("conversations", ("id",), f"id, {_HEAD}", "id")
TABLES: Final = (
    CONVERSATIONS,
    Table("runs", ("id",)),
    Table("approvals", ("id",)),
    Table("decisions", ("approval_id", "approver", "decision")),
    Table("tool_executions", ("run_id", "call_id")),
    Table("questions", ("id",)),
    Table("session_approvals", ("conversation_id", "principal", "agent", "tool")),
    Table("grants", ("id",)),
    Table("grant_uses", ("conversation_id", "seq")),
)


@dataclass(frozen=True, slots=True)
class Difference:
    """A column whose stored value is not what the log says; None where there is no row."""

    table: str
    key: str
    column: str
    stored: Any
    rebuilt: Any


_COPY: Final = """
CREATE TEMP TABLE NAME (LIKE public.NAME INCLUDING DEFAULTS INCLUDING INDEXES)
ON COMMIT LATER"""

_SCOPE: Final = """
SELECT id FROM public.conversations
WHERE ($1::text IS NULL OR tenant = $1) AND ($2::text IS NULL OR id = $2) ORDER BY id"""
_LOCK: Final = "SELECT FROM public.conversations WHERE id = $1 FOR UPDATE"

_EMPTY: Final = """
INSERT INTO pg_temp.conversations (id, tenant, kind, principal, participants, metadata, head_seq,
    head_hash, created_at)
SELECT id, tenant, kind, '', '{}', '{}', 0, $2, created_at
FROM public.conversations WHERE id = $1"""
_PUT_TAIL: Final = """
UPDATE pg_temp.conversations SET head_seq = $2, head_hash = $3, tainted = $4, sealed_seq = $5
WHERE id = $1"""

_EVENTS: Final = """
SELECT conversation_id, seq, run_id, turn_id, step, type, trust, at, body, private, hash
FROM public.events WHERE conversation_id = $1 AND seq > $2 ORDER BY seq LIMIT $3"""

_COMPARE: Final = """
WITH stored AS (
    SELECT concat_ws('/', KEY) AS key, row_to_json(t)::text AS row
    FROM (SELECT COLUMNS FROM public.NAME WHERE CONVERSATION = $1) t
), rebuilt AS (
    SELECT concat_ws('/', KEY) AS key, row_to_json(t)::text AS row
    FROM (SELECT COLUMNS FROM pg_temp.NAME WHERE CONVERSATION = $1) t
)
SELECT key, stored.row AS stored, rebuilt.row AS rebuilt
FROM stored FULL JOIN rebuilt USING (key)
WHERE stored.row IS DISTINCT FROM rebuilt.row ORDER BY key"""

_PUT_HEAD: Final = """
UPDATE public.conversations c SET (COLUMNS) = (SELECT COLUMNS FROM pg_temp.conversations t
    WHERE t.id = c.id)
WHERE c.id = $1""".replace("COLUMNS", _HEAD)
_DELETE: Final = "DELETE FROM public.NAME WHERE conversation_id = $1"
_INSERT: Final = "INSERT INTO public.NAME SELECT * FROM pg_temp.NAME WHERE conversation_id = $1"


async def rebuild(
    dsn: str,
    *,
    tenant: str | None = None,
    conversation_id: str | None = None,
    repair: bool = False,
) -> list[Difference]:
    """What differs, in all conversations or those named; with `repair` it differs no more.

    Each conversation is compared on one snapshot, or repaired under its lock, so writers may go on.
    """
    connection = await connect(dsn, settings={**SESSION, **EVERY_TENANT})
    try:
        names = (None if tenant is None else escape(tenant), conversation_id)
        is_pooled = address_of(dsn).is_pooled
        async with every_tenant(connection, is_pooled=is_pooled):
            scope = await connection.fetch(_SCOPE, *names)
        # Behind a pooler each conversation gets tables of its own: the next is in another session.
        if not is_pooled:
            await _make_copies(connection, "DELETE ROWS")
        found: list[Difference] = []
        for row in scope:
            async with connection.transaction(isolation=None if repair else "repeatable_read"):
                if is_pooled:
                    await connection.execute(WIDEN)
                    await _make_copies(connection, "DROP")
                found += await _rebuild_one(connection, row["id"], repair)
    finally:
        await connection.close()
    return found


async def _make_copies(connection: Connection, later: str) -> None:
    for table in TABLES:
        await connection.execute(_COPY.replace("NAME", table.name).replace("LATER", later))


async def _rebuild_one(connection: Connection, conversation: str, repair: bool) -> list[Difference]:
    if repair:
        await connection.execute(_LOCK, conversation)
    await _replay(connection, conversation)
    found: list[Difference] = []
    for table in TABLES:
        differences = await _compare(connection, table, conversation)
        if differences and repair:
            await _put(connection, table, conversation)
        found += differences
    return found


async def _replay(connection: Connection, conversation: str) -> None:
    tail = Tail()
    await connection.execute(_EMPTY, conversation, tail.hash)
    while page := await connection.fetch(_EVENTS, conversation, tail.seq, PAGE):
        changes: list[Change] = []
        for row in page:
            event = records.event(row)
            sealed = event.data["through_seq"] if event.type == "log.sealed" else tail.sealed
            tail = Tail(event.seq, row["hash"], tail.tainted or event.trust.taints, sealed)
            try:
                payload = parse(event.type, event.data)
            except UnknownEventType:
                # A type that this release does not know projects to nothing it knows.
                continue
            changes += project(Fact(event, payload, wire_time(row["at"]), tail.tainted))
        await write_later_rounds(connection, [conversation], rounds(changes))
    await connection.execute(_PUT_TAIL, conversation, *tail.as_row())


async def _compare(connection: Connection, table: Table, conversation: str) -> list[Difference]:
    rows = await connection.fetch(_for(_COMPARE, table), conversation)
    return [
        Difference(table.name, row["key"], column, stored.get(column), rebuilt.get(column))
        for row in rows
        for stored, rebuilt in [(_document(row["stored"]), _document(row["rebuilt"]))]
        for column in stored | rebuilt
        if stored.get(column) != rebuilt.get(column)
    ]


def _document(text: str | None) -> dict[str, Any]:
    document: dict[str, Any] = {} if text is None else orjson.loads(text)
    return document


async def _put(connection: Connection, table: Table, conversation: str) -> None:
    if table is CONVERSATIONS:
        await connection.execute(_PUT_HEAD, conversation)
        return
    await connection.execute(_for(_DELETE, table), conversation)
    await connection.execute(_for(_INSERT, table), conversation)


def _for(statement: str, table: Table) -> str:
    return (
        statement.replace("NAME", table.name)
        .replace("KEY", ", ".join(table.key))
        .replace("COLUMNS", table.columns)
        .replace("CONVERSATION", table.conversation)
    )
