"""The one append. Nothing else in the house writes to `events`.

The statement moves the heads of all its conversations, each only if its head is still where the
batch was numbered and its lease still the caller's, and inserts the events and projected rows of
those that it moved. So seqs have no gap, commits have their order, and a worker that lost its lease
writes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import orjson

from app.store.log.numbering import Tail
from app.store.projections.kinds import CONVERSATION_DESCRIBED

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    import asyncpg

    from app.store.log.numbering import Batch
    from app.store.projections.changes import Change, Round
    from app.store.projections.kinds import Kind
    from app.store.server.connections import Connection


class Outcome(Enum):
    """What became of a batch; all but DONE wrote nothing."""

    DONE = auto()
    MOVED = auto()  # somebody else has appended: number again on the tail that comes with it
    LOST = auto()  # the lease is another's
    BUSY = auto()  # somebody holds the conversation's row just now
    CROWDED = auto()  # another run is open beside the one that was to be the only one


@dataclass(frozen=True, slots=True)
class Answer:
    """An outcome with the log's tail where it was seen."""

    outcome: Outcome
    tail: Tail | None = None


# Moves heads whose row is free at once, in the order of their ids: a row that a request holds is
# left for the next time instead of holding up everybody else's commit.
_ADVANCE: Final = """
WITH x AS (
    SELECT * FROM unnest($1::text[], $2::bigint[], $3::bigint[], $4::bytea[], $5::boolean[],
        $6::bigint[], $7::bigint[], $8::boolean[], $14::text[])
        AS x(id, expected, head, hash, tainted, sealed, generation, releases, lone_run)
), l AS MATERIALIZED (
    SELECT id, head_seq, head_hash, tainted, sealed_seq, lease_generation, lease_owner
    FROM conversations WHERE id = ANY($1) ORDER BY id
    FOR NO KEY UPDATE SKIP LOCKED
), u AS (
    UPDATE conversations c SET head_seq = x.head, head_hash = x.hash, tainted = x.tainted,
        sealed_seq = x.sealed,
        lease_owner = CASE WHEN x.releases THEN NULL ELSE c.lease_owner END,
        lease_until = CASE WHEN x.releases THEN NULL ELSE c.lease_until END
    FROM x JOIN l ON l.id = x.id
    WHERE c.id = l.id AND l.head_seq = x.expected AND (x.generation IS NULL
        OR (l.lease_generation = x.generation AND l.lease_owner IS NOT NULL))
        AND (x.lone_run IS NULL OR NOT EXISTS (SELECT FROM runs r
            WHERE r.conversation_id = l.id AND r.ended_at IS NULL AND r.id <> x.lone_run))
    RETURNING c.id, c.tenant
)"""

# A conversation is inserted with its first events, already described by the first of them.
_OPEN: Final = """
WITH x AS (
    SELECT * FROM unnest($1::text[], $2::bigint[], $3::bigint[], $4::bytea[], $5::boolean[],
        $6::bigint[], $7::bigint[], $8::boolean[])
        AS x(id, expected, head, hash, tainted, sealed, generation, releases)
), u AS (
    INSERT INTO conversations (id, tenant, kind, principal, participants, title, metadata, head_seq,
        head_hash, tainted, sealed_seq, created_at)
    SELECT x.id, $14::text, 'user', p.principal, p.participants, p.title, p.metadata::json, x.head,
        x.hash, x.tainted, x.sealed, $15::timestamptz
    FROM x CROSS JOIN json_to_record($16::json)
        AS p(principal text, participants text[], title text, metadata text)
    RETURNING id, tenant
), l AS (
    SELECT NULL::text AS id, 0::bigint AS head_seq, ''::bytea AS head_hash, false AS tainted,
        0::bigint AS sealed_seq, 0::bigint AS lease_generation, NULL::text AS lease_owner
    WHERE false
)"""

_INSERT_EVENTS: Final = """, e AS (
    INSERT INTO events (tenant, conversation_id, seq, run_id, turn_id, step, type, trust, at, data,
        body, private, prev_hash, hash)
    SELECT u.tenant, u.id, e.seq, e.run_id, e.turn_id, e.step, e.type, e.trust, e.at, e.data,
        e.body, e.private, e.prev_hash, e.hash
    FROM ROWS FROM (
            json_to_recordset($9::json) AS (conversation_id text, seq bigint, run_id text,
                turn_id text, step bigint, type text, trust smallint, at timestamptz, data jsonb),
            unnest($10::bytea[], $11::bytea[], $12::bytea[], $13::bytea[]))
        AS e(conversation_id, seq, run_id, turn_id, step, type, trust, at, data, body, private,
            prev_hash, hash)
        JOIN u ON u.id = e.conversation_id
)"""

_CHANGE: Final = """, NAME AS (
    WITH p AS (SELECT * FROM json_to_recordset(PARAMETER::json) AS p(COLUMNS))
    SQL
)"""

_ANSWER: Final = """
SELECT x.id, u.id IS NOT NULL AS done, l.id IS NOT NULL AS locked, l.head_seq, l.head_hash,
    l.tainted, l.sealed_seq, l.head_seq <> x.expected AS moved, x.generation IS NULL
        OR (l.lease_generation = x.generation AND l.lease_owner IS NOT NULL) AS held
FROM x LEFT JOIN l ON l.id = x.id LEFT JOIN u ON u.id = x.id"""

# The later rounds of an append, in its transaction.
_REACHED: Final = "WITH u AS (SELECT id, tenant FROM conversations WHERE id = ANY($1::text[]))"

_ADVANCE_PARAMETERS: Final = 14
_OPEN_PARAMETERS: Final = 16


@lru_cache(maxsize=512)
def _changes_sql(kinds: tuple[Kind, ...], after: int) -> str:
    return "".join(
        _CHANGE.replace("NAME", kind.name)
        .replace("PARAMETER", f"${number}")
        .replace("COLUMNS", kind.columns)
        .replace("SQL", kind.sql)
        for number, kind in enumerate(kinds, start=after + 1)
    )


@dataclass(frozen=True, slots=True)
class Opening:
    """What a conversation that does not exist yet is made with."""

    tenant: str
    created_at: datetime


async def write(
    connection: Connection, batches: Sequence[Batch], opening: Opening | None = None
) -> dict[str, Answer]:
    """Write batches of different conversations in one statement; by conversation what happened.

    `opening` belongs to the only batch. Later rounds are the caller's (`write_later_rounds`).
    """
    first = _joined(batch.plan[0] for batch in batches)
    heads = [
        (b.conversation_id, b.before.seq, *b.after.as_row(), b.lease.generation, b.lease.releases)
        for b in batches
    ]
    columns, *octets = _columns([row for batch in batches for row in batch.rows], 5)
    arguments: list[Any] = [*_columns(heads, 8), orjson.dumps(columns).decode(), *octets]
    if opening is None:
        head, count = _ADVANCE, _ADVANCE_PARAMETERS
        arguments.append([batch.lease.lone_run for batch in batches])
    else:
        head, count = _OPEN, _OPEN_PARAMETERS
        described = _description(batches[0])
        arguments += [opening.tenant, opening.created_at, orjson.dumps(described.row).decode()]
    statement = head + _INSERT_EVENTS + _changes_sql(tuple(first), count) + _ANSWER
    answers = await connection.fetch(statement, *arguments, *_json_rows(first))
    return {row["id"]: _answer(row) for row in answers}


def later_rounds(batches: Iterable[Batch], *, opened: bool = False) -> list[Round]:
    """What must follow `write` in the same transaction, in order."""
    plans = [batch.plan[1:] for batch in batches]
    later = [
        _joined(plan[depth] for plan in plans if len(plan) > depth)
        for depth in range(max((len(plan) for plan in plans), default=0))
    ]
    if opened:
        # The first description was inserted with the conversation.
        described = later[0].pop(CONVERSATION_DESCRIBED)
        if len(described) > 1:
            later[0][CONVERSATION_DESCRIBED] = described[1:]
    return [round_ for round_ in later if round_]


async def write_later_rounds(
    connection: Connection, conversation_ids: Sequence[str], later: Sequence[Round]
) -> None:
    """Write the rounds for those conversations that the append has reached."""
    for round_ in later:
        statement = _REACHED + _changes_sql(tuple(round_), 1) + " SELECT"
        await connection.execute(statement, conversation_ids, *_json_rows(round_))


def _description(batch: Batch) -> Change:
    for round_ in batch.plan[1:2]:
        for change in round_.get(CONVERSATION_DESCRIBED, ()):
            return change
    raise ValueError(f"{batch.conversation_id!r} must begin with its conversation.created")


def _joined(plans: Iterable[Round]) -> Round:
    joined: Round = {}
    for plan in plans:
        for kind, changes in plan.items():
            joined.setdefault(kind, []).extend(changes)
    # One order of kinds for one set of them keeps the number of different statements small.
    return dict(sorted(joined.items(), key=lambda item: item[0].name))


def _json_rows(round_: Round) -> list[str]:
    return [orjson.dumps([c.row for c in changes]).decode() for changes in round_.values()]


def _columns(rows: Sequence[tuple[Any, ...]], count: int) -> list[list[Any]]:
    return [list(column) for column in zip(*rows, strict=True)] if rows else [[]] * count


def _answer(row: asyncpg.Record) -> Answer:
    if row["done"]:
        return Answer(Outcome.DONE)
    if not row["locked"]:
        return Answer(Outcome.BUSY)
    if not row["held"]:
        return Answer(Outcome.LOST)
    if not row["moved"]:
        return Answer(Outcome.CROWDED)
    return Answer(Outcome.MOVED, Tail.of(row))
