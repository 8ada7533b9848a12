"""The SQL of reads. Every statement takes the tenant first and sees nothing of another's."""

from __future__ import annotations

from typing import Final

from app.store.rows.ready import ORDER

_CONVERSATIONS: Final = """
SELECT c.*, (SELECT r.id FROM runs r WHERE r.conversation_id = c.id AND r.ended_at IS NULL
    AND r.started_at IS NOT NULL LIMIT 1) AS active_run_id
FROM conversations c
WHERE c.tenant = $1 AND c.kind = 'user' AND CONDITION"""

CONVERSATION: Final = _CONVERSATIONS.replace("CONDITION", "c.id = $2")

# Those that the principal ($2) made or takes part in, or all.
CONVERSATIONS: Final = _CONVERSATIONS.replace(
    "CONDITION",
    """($2::text IS NULL OR c.principal = $2
        OR (c.participants <> '{}' AND c.participants @> ARRAY[$2::text]))
    AND ($3::text IS NULL OR c.id < $3)
ORDER BY c.id DESC LIMIT $4""",
)

_RUNS: Final = """
SELECT r.*, (SELECT max(e.seq) FROM events e WHERE e.run_id = r.id AND e.tenant = r.tenant)
    AS run_head_seq
FROM runs r
WHERE r.tenant = $1 AND CONDITION"""

RUN: Final = _RUNS.replace("CONDITION", "r.id = $2")

RUN_AND_CONVERSATION: Final = """
SELECT r.*, (SELECT max(e.seq) FROM events e WHERE e.run_id = r.id AND e.tenant = r.tenant)
    AS run_head_seq, c.id AS c_id, c.tenant AS c_tenant, c.principal AS c_principal,
    c.participants AS c_participants, c.title AS c_title, c.metadata AS c_metadata,
    c.head_seq AS c_head_seq, c.tainted AS c_tainted, c.created_at AS c_created_at,
    (SELECT o.id FROM runs o WHERE o.conversation_id = c.id AND o.ended_at IS NULL
        AND o.started_at IS NOT NULL LIMIT 1) AS c_active_run_id
FROM runs r JOIN conversations c ON c.id = r.conversation_id
WHERE r.tenant = $1 AND r.id = $2"""

RUNS: Final = _RUNS.replace(
    "CONDITION",
    """($2::text IS NULL OR r.principal = $2 OR EXISTS (
        SELECT FROM conversations c WHERE c.id = r.conversation_id
            AND (c.principal = $2 OR c.participants @> ARRAY[$2::text])))
    AND ($3::text IS NULL OR r.id < $3)
    AND ($5::text IS NULL OR r.status = $5)
    AND ($6::text IS NULL OR r.agent = $6)
    AND ($7::text IS NULL OR r.conversation_id = $7)
    AND ($8::text IS NULL OR r.principal = $8)
ORDER BY r.id DESC LIMIT $4""",
)

UNFINISHED_RUNS: Final = _RUNS.replace(
    "CONDITION", "r.conversation_id = $2 AND r.ended_at IS NULL ORDER BY ORDERING"
).replace("ORDERING", ORDER)

PENDING_APPROVALS: Final = """
SELECT run_id, id, call_id, tool, title, reason, expires_at FROM approvals
WHERE tenant = $1 AND run_id = ANY($2::text[]) AND status = 'pending' ORDER BY requested_seq"""

PENDING_QUESTIONS: Final = """
SELECT run_id, id, call_id, expires_at FROM questions
WHERE tenant = $1 AND run_id = ANY($2::text[]) AND status = 'pending' ORDER BY asked_seq"""

_QUESTIONS: Final = "SELECT q.* FROM questions q WHERE q.tenant = $1 AND CONDITION"

QUESTION: Final = _QUESTIONS.replace("CONDITION", "q.id = $2")

RUN_QUESTIONS: Final = _QUESTIONS.replace("CONDITION", "q.run_id = $2 ORDER BY q.asked_seq")

# Those that the principal ($2) can see as a party to the conversation or may answer ($5: roles).
QUESTIONS: Final = _QUESTIONS.replace(
    "CONDITION",
    """($2::text IS NULL OR q.principal = $2 OR q.roles && $5::text[] OR $2 = ANY(q.programs)
        OR EXISTS (SELECT FROM conversations c WHERE c.id = q.conversation_id
            AND (c.principal = $2 OR c.participants @> ARRAY[$2::text])))
    AND ($3::text IS NULL OR q.id < $3)
    AND ($6::text IS NULL OR q.status = $6)
    AND ($7::text IS NULL OR q.run_id = $7)
ORDER BY q.id DESC LIMIT $4""",
)

SESSION_APPROVALS: Final = """
SELECT * FROM session_approvals WHERE tenant = $1 AND conversation_id = $2 ORDER BY at, tool"""

AGENT: Final = "SELECT * FROM agents WHERE tenant = $1 AND name = $2"

AGENT_AND_OPEN_RUNS: Final = """
SELECT a.*, (SELECT count(*) FROM runs r
    WHERE r.tenant = $1 AND r.principal = $3 AND r.ended_at IS NULL) AS open_runs
FROM agents a WHERE a.tenant = $1 AND a.name = $2"""

AGENTS: Final = """
SELECT * FROM agents
WHERE tenant = $1 AND ($2::timestamptz IS NULL OR (created_at, name) < ($2, $3::text))
ORDER BY created_at DESC, name DESC LIMIT $4"""

KEY: Final = "SELECT * FROM approver_keys WHERE tenant = $1 AND id = $2"

KEYS: Final = """
SELECT * FROM approver_keys
WHERE tenant = $1 AND principal = $2 AND ($3::text IS NULL OR id < $3)
ORDER BY id DESC LIMIT $4"""

_EVENTS: Final = """
SELECT conversation_id, seq, run_id, turn_id, step, type, trust, body, PRIVATE AS private
FROM events WHERE tenant = $1 AND conversation_id = $2 AND CONDITION"""
_SHOWN: Final = _EVENTS.replace("PRIVATE", "NULL::bytea")
_WHOLE: Final = _EVENTS.replace("PRIVATE", "private")

EVENT: Final = _SHOWN.replace("CONDITION", "seq = $3")

EVENTS: Final = _SHOWN.replace("CONDITION", "seq > $3 ORDER BY seq LIMIT $4")
RUN_EVENTS: Final = _SHOWN.replace("CONDITION", "seq > $3 AND run_id = $5 ORDER BY seq LIMIT $4")

# Streamed text is most of a log and is never asked for by type: an index leaves it out.
_NO_DELTAS: Final = "type <> ALL ('{text.delta,reasoning.delta}'::text[])"

FACTS: Final = _WHOLE.replace(
    "CONDITION", "seq > $3 AND type = ANY($5::text[]) AND FILTER ORDER BY seq LIMIT $4"
).replace("FILTER", _NO_DELTAS)
RUN_FACTS: Final = _WHOLE.replace(
    "CONDITION",
    "seq > $3 AND type = ANY($5::text[]) AND FILTER AND run_id = $6 ORDER BY seq LIMIT $4",
).replace("FILTER", _NO_DELTAS)
RUN_FACTS_BUT: Final = _WHOLE.replace(
    "CONDITION", "type <> ALL($3::text[]) AND FILTER AND run_id = $4 ORDER BY seq"
).replace("FILTER", _NO_DELTAS)
EVENTS_OF: Final = _WHOLE.replace(
    "CONDITION", "seq > $3 AND type = ANY($5::text[]) ORDER BY seq LIMIT $4"
)
RUN_EVENTS_OF: Final = _WHOLE.replace(
    "CONDITION", "seq > $3 AND type = ANY($5::text[]) AND run_id = $6 ORDER BY seq LIMIT $4"
)

LATEST: Final = _WHOLE.replace(
    "CONDITION", "type = $3 AND FILTER ORDER BY seq DESC LIMIT 1"
).replace("FILTER", _NO_DELTAS)
RUN_LATEST: Final = _WHOLE.replace(
    "CONDITION", "type = $3 AND run_id = $4 ORDER BY seq DESC LIMIT 1"
)
LATEST_COMPACTION: Final = _WHOLE.replace(
    "CONDITION", "type = 'history.compacted' ORDER BY seq DESC LIMIT 1"
)
LATEST_CHECKPOINT: Final = _WHOLE.replace(
    "CONDITION", "type = 'run.checkpointed' ORDER BY seq DESC LIMIT 1"
)

HEAD: Final = "SELECT head_seq FROM conversations WHERE tenant = $1 AND id = $2"
RUN_HEAD: Final = """
SELECT max(seq) FROM events WHERE tenant = $1 AND conversation_id = $2 AND run_id = $3"""

QUARANTINED: Final = """
SELECT seq FROM events WHERE tenant = $1 AND conversation_id = $2 AND trust = 2
ORDER BY seq DESC LIMIT $3"""
