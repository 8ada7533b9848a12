"""The SQL of projections: one statement for each kind of change, writing any number of rows.

A statement reads its rows from `p`, a record set of `columns` that comes as one JSON parameter, and
joins `u`, the conversations that the append has really reached: what belongs to a lost lease is
written nowhere. The tenant comes from the conversation's own row and cannot be forged.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Kind:
    """One statement: `sql` reads the record set `p` of `columns`, and joins `u`."""

    name: str
    columns: str
    sql: str
    # False where the row is the conversation's own, which the append itself updates.
    rides: bool = True


USAGE = (
    "input_tokens",
    "output_tokens",
    "total_tokens",
    "cached_input_tokens",
    "cache_creation_input_tokens",
    "tool_use_prompt_tokens",
    "reasoning_tokens",
)


RUN_CREATED = Kind(
    "run_created",
    """id text, conversation_id text, agent text, agent_digest text, principal text,
    unattended boolean, goes_next boolean, max_steps bigint, tainted boolean, metadata text,
    created_seq bigint, created_at timestamptz""",
    """INSERT INTO runs (id, tenant, conversation_id, agent, agent_digest, principal, status,
        unattended, goes_next, max_steps, tainted, metadata, created_seq, created_at)
    SELECT p.id, u.tenant, u.id, p.agent, p.agent_digest, p.principal, 'queued', p.unattended,
        p.goes_next, p.max_steps, p.tainted, p.metadata::json, p.created_seq, p.created_at
    FROM p JOIN u ON u.id = p.conversation_id""",
)

# A run that has ended is never changed again, whatever comes after its terminal event.
RUN_CHANGED = Kind(
    "run_changed",
    """id text, conversation_id text, status text, attempts bigint, started_at timestamptz,
    steps bigint, steps_added bigint, usage_is_total boolean, input_tokens bigint,
    output_tokens bigint, total_tokens bigint, cached_input_tokens bigint,
    cache_creation_input_tokens bigint, tool_use_prompt_tokens bigint, reasoning_tokens bigint,
    tainted boolean, answer text, error text, ended_at timestamptz""",
    """UPDATE runs r SET
        status = coalesce(p.status, r.status),
        attempts = coalesce(p.attempts, r.attempts),
        started_at = coalesce(r.started_at, p.started_at),
        steps = coalesce(p.steps, r.steps) + p.steps_added,
        input_tokens = b.base * r.input_tokens + p.input_tokens,
        output_tokens = b.base * r.output_tokens + p.output_tokens,
        total_tokens = b.base * r.total_tokens + p.total_tokens,
        cached_input_tokens = b.base * r.cached_input_tokens + p.cached_input_tokens,
        cache_creation_input_tokens =
            b.base * r.cache_creation_input_tokens + p.cache_creation_input_tokens,
        tool_use_prompt_tokens = b.base * r.tool_use_prompt_tokens + p.tool_use_prompt_tokens,
        reasoning_tokens = b.base * r.reasoning_tokens + p.reasoning_tokens,
        tainted = r.tainted OR p.tainted,
        answer = coalesce(p.answer::json, r.answer),
        error = coalesce(p.error::json, r.error),
        ended_at = p.ended_at
    FROM p JOIN u ON u.id = p.conversation_id,
        LATERAL (SELECT CASE WHEN p.usage_is_total THEN 0 ELSE 1 END) AS b(base)
    WHERE r.id = p.id AND r.conversation_id = u.id AND r.ended_at IS NULL""",
)

APPROVAL_REQUESTED = Kind(
    "approval_requested",
    """id text, conversation_id text, run_id text, call_id text, agent text, tool text, title text,
    reason text, roles text[], programs text[], status text, card text,
    tool_definition_digest text, args_canonical text, args_sha256 text, requested_seq bigint,
    expires_at timestamptz""",
    """INSERT INTO approvals (id, tenant, conversation_id, run_id, call_id, principal, agent, tool,
        title, reason, roles, programs, status, card, tool_definition_digest, args_canonical,
        args_sha256, requested_seq, expires_at)
    SELECT p.id, u.tenant, u.id, p.run_id, p.call_id, r.principal, p.agent, p.tool, p.title,
        p.reason, p.roles, p.programs, p.status, p.card::json, p.tool_definition_digest,
        p.args_canonical, p.args_sha256, p.requested_seq, p.expires_at
    FROM p JOIN u ON u.id = p.conversation_id JOIN runs r ON r.id = p.run_id""",
)

# What an approved call runs with is the latest approver's edit, else what was asked for. Only a
# newer request takes the place of an approval that was not used yet (turn.md 6.4).
APPROVAL_CHANGED = Kind(
    "approval_changed",
    """id text, conversation_id text, status text, resolved_at timestamptz, resolved_by text,
    superseded_by text, override_args text, effective_args_sha256 text, refusals bigint""",
    """UPDATE approvals a SET
        status = coalesce(p.status, a.status),
        resolved_at = p.resolved_at,
        resolved_by = p.resolved_by,
        superseded_by = p.superseded_by,
        effective_args = CASE
            WHEN p.status <> 'approved' THEN NULL
            WHEN p.effective_args_sha256 IS NOT NULL
                THEN coalesce(p.override_args, a.args_canonical)
            WHEN p.status = 'approved' THEN coalesce(a.effective_args, a.args_canonical)
            ELSE a.effective_args END,
        effective_args_sha256 = CASE
            WHEN p.status <> 'approved' THEN NULL
            WHEN p.effective_args_sha256 IS NOT NULL THEN p.effective_args_sha256
            WHEN p.status = 'approved' THEN coalesce(a.effective_args_sha256, a.args_sha256)
            ELSE a.effective_args_sha256 END,
        refusals = a.refusals + p.refusals
    FROM p JOIN u ON u.id = p.conversation_id
    WHERE a.id = p.id AND a.conversation_id = u.id AND (a.status = 'pending'
        OR (a.status = 'approved' AND p.status = 'superseded'))""",
)

DECIDED = Kind(
    "decided",
    """conversation_id text, approval_id text, approver text, decision text, seq bigint,
    caller text, assurance text, key_id text, scope text, covered_capabilities text[],
    override_args text, note text, reason text, sandbox_mode text, payload_sha256 text,
    effective_args_sha256 text, signed text, at timestamptz""",
    """INSERT INTO decisions (tenant, approval_id, approver, decision, conversation_id, seq, caller,
        assurance, key_id, scope, covered_capabilities, override_args, note, reason, sandbox_mode,
        payload_sha256, effective_args_sha256, signed, at)
    SELECT u.tenant, p.approval_id, p.approver, p.decision, u.id, p.seq, p.caller, p.assurance,
        p.key_id, p.scope, p.covered_capabilities, p.override_args, p.note, p.reason,
        p.sandbox_mode, p.payload_sha256, p.effective_args_sha256, decode(p.signed, 'base64'), p.at
    FROM p JOIN u ON u.id = p.conversation_id""",
)

EXECUTION_STARTED = Kind(
    "execution_started",
    "conversation_id text, run_id text, call_id text, attempt bigint, settled boolean",
    """INSERT INTO tool_executions AS t (tenant, conversation_id, run_id, call_id, attempt, settled)
    SELECT u.tenant, u.id, p.run_id, p.call_id, p.attempt, p.settled
    FROM p JOIN u ON u.id = p.conversation_id
    ON CONFLICT (run_id, call_id) DO UPDATE
        SET attempt = greatest(t.attempt, excluded.attempt), settled = excluded.settled""",
)

EXECUTION_SETTLED = Kind(
    "execution_settled",
    "conversation_id text, run_id text, call_id text",
    """UPDATE tool_executions t SET settled = true
    FROM p JOIN u ON u.id = p.conversation_id
    WHERE t.run_id = p.run_id AND t.call_id = p.call_id""",
)

QUESTION_ASKED = Kind(
    "question_asked",
    """id text, conversation_id text, run_id text, call_id text, status text, card text,
    asked_seq bigint, asked_at timestamptz, expires_at timestamptz, roles text[], programs text[],
    turn_id text, args_sha256 text""",
    """INSERT INTO questions (id, tenant, conversation_id, run_id, call_id, status, card, asked_seq,
        asked_at, expires_at, principal, roles, programs, turn_id, args_sha256)
    SELECT p.id, u.tenant, u.id, p.run_id, p.call_id, p.status, p.card::json, p.asked_seq,
        p.asked_at, p.expires_at, r.principal, p.roles, p.programs, p.turn_id, p.args_sha256
    FROM p JOIN u ON u.id = p.conversation_id JOIN runs r ON r.id = p.run_id""",
)

# A call waits on until each of its questions has its answer (turn.md 7.2).

QUESTION_ANSWERED = Kind(
    "question_answered",
    "id text, conversation_id text, outcome text, answers text",
    """UPDATE questions q SET
        status = CASE WHEN p.outcome = 'answered' AND coalesce(json_array_length(q.answers), 0)
                + json_array_length(p.answers::json) < json_array_length(q.card->'questions')
            THEN q.status ELSE p.outcome END,
        answers = (SELECT json_agg(a.answer ORDER BY a.part, a.place) FROM (
            SELECT 1, * FROM json_array_elements(coalesce(q.answers, '[]')) WITH ORDINALITY
            UNION ALL
            SELECT 2, * FROM json_array_elements(p.answers::json) WITH ORDINALITY
        ) AS a(part, answer, place))
    FROM p JOIN u ON u.id = p.conversation_id
    WHERE q.id = p.id AND q.conversation_id = u.id AND q.status = 'pending'""",
)

# The last pending item of a pause hands the run back to the workers (service.md 4). What is settled
# beside it, in the same statement, still looks pending here.
PAUSE_SETTLED = Kind(
    "pause_settled",
    "id text, conversation_id text, settled text[]",
    """UPDATE runs r SET status = 'queued'
    FROM p JOIN u ON u.id = p.conversation_id
    WHERE r.id = p.id AND r.conversation_id = u.id AND r.status = 'paused'
        AND NOT EXISTS (SELECT FROM approvals a
            WHERE a.run_id = r.id AND a.status = 'pending' AND a.id <> ALL (p.settled))
        AND NOT EXISTS (SELECT FROM questions q
            WHERE q.run_id = r.id AND q.status = 'pending' AND q.id <> ALL (p.settled))""",
)

SESSION_GIVEN = Kind(
    "session_given",
    """approval_id text, conversation_id text, covered_capabilities text[],
    effective_args_sha256 text, at timestamptz""",
    # Where several approvals add up, each must have been given for the session.
    """INSERT INTO session_approvals AS s (tenant, conversation_id, principal, agent, tool,
        covered_capabilities, tool_definition_digest, approval_id, at)
    SELECT u.tenant, u.id, a.principal, a.agent, a.tool, p.covered_capabilities,
        a.tool_definition_digest, a.id, p.at
    FROM p JOIN u ON u.id = p.conversation_id
        JOIN approvals a ON a.id = p.approval_id AND a.conversation_id = u.id
    WHERE NOT EXISTS (SELECT FROM decisions d WHERE d.approval_id = a.id
        AND d.decision = 'approve' AND d.scope = 'once'
        AND d.effective_args_sha256 = p.effective_args_sha256)
    ON CONFLICT (conversation_id, principal, agent, tool) DO UPDATE
        SET covered_capabilities = excluded.covered_capabilities, at = excluded.at,
            tool_definition_digest = excluded.tool_definition_digest,
            approval_id = excluded.approval_id""",
)

SESSION_ENDED = Kind(
    "session_ended",
    "conversation_id text, principal text, agent text, tool text",
    """DELETE FROM session_approvals s
    USING p JOIN u ON u.id = p.conversation_id
    WHERE s.conversation_id = u.id AND s.principal = p.principal AND s.agent = p.agent
        AND s.tool = p.tool""",
)

GRANT_ENROLLED = Kind(
    "grant_enrolled",
    """id text, conversation_id text, principal text, agent text, tool text,
    tool_definition_digest text, capabilities text[], constraints text, coverage_hash text,
    passkey_id text, evidence text, enrolled_at timestamptz, expires_at timestamptz""",
    """INSERT INTO grants (id, tenant, conversation_id, principal, agent, tool,
        tool_definition_digest, capabilities, constraints, coverage_hash, passkey_id, evidence,
        enrolled_at, expires_at)
    SELECT p.id, u.tenant, u.id, p.principal, p.agent, p.tool, p.tool_definition_digest,
        p.capabilities, p.constraints::json, p.coverage_hash, p.passkey_id,
        decode(p.evidence, 'base64'), p.enrolled_at, p.expires_at
    FROM p JOIN u ON u.id = p.conversation_id""",
)

GRANT_ENDED = Kind(
    "grant_ended",
    "id text, conversation_id text, revoked_at timestamptz, suspended_at timestamptz",
    """UPDATE grants g SET
        revoked_at = coalesce(g.revoked_at, p.revoked_at),
        suspended_at = coalesce(g.suspended_at, p.suspended_at)
    FROM p JOIN u ON u.id = p.conversation_id
    WHERE g.id = p.id AND g.conversation_id = u.id""",
)

GRANT_USED = Kind(
    "grant_used",
    """conversation_id text, seq bigint, grant_id text, run_id text, call_id text,
    at timestamptz""",
    """INSERT INTO grant_uses (tenant, conversation_id, seq, grant_id, run_id, call_id, at)
    SELECT u.tenant, u.id, p.seq, p.grant_id, p.run_id, p.call_id, p.at
    FROM p JOIN u ON u.id = p.conversation_id""",
)

CONVERSATION_DESCRIBED = Kind(
    "conversation_described",
    """conversation_id text, principal text, participants text[], title text, has_title boolean,
    metadata text""",
    """UPDATE conversations c SET
        principal = coalesce(p.principal, c.principal),
        participants = coalesce(p.participants, c.participants),
        title = CASE WHEN p.has_title THEN p.title ELSE c.title END,
        metadata = coalesce(p.metadata::json, c.metadata)
    FROM p JOIN u ON u.id = p.conversation_id
    WHERE c.id = u.id""",
    rides=False,
)
