"""The first schema: the log, what is folded from it, and what may happen only once."""

from __future__ import annotations

from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

LOG = """
CREATE TABLE tenants (
    id text NOT NULL,
    created_at timestamptz NOT NULL,
    CONSTRAINT pk_tenants PRIMARY KEY (id),
    CONSTRAINT ck_tenants_id_not_empty CHECK (id <> '')
);

CREATE TABLE principals (
    tenant text NOT NULL,
    id text NOT NULL,
    created_at timestamptz NOT NULL,
    CONSTRAINT pk_principals PRIMARY KEY (tenant, id),
    CONSTRAINT ck_principals_tenant_not_empty CHECK (tenant <> ''),
    CONSTRAINT ck_principals_id_not_empty CHECK (id <> '')
);

CREATE TABLE conversations (
    id text NOT NULL,
    tenant text NOT NULL,
    kind text NOT NULL,
    principal text NOT NULL,
    participants text[] NOT NULL,
    title text,
    metadata json NOT NULL,
    head_seq bigint NOT NULL,
    head_hash bytea NOT NULL,
    tainted boolean NOT NULL DEFAULT false,
    created_at timestamptz NOT NULL,
    lease_owner text,
    lease_until timestamptz,
    lease_generation bigint NOT NULL DEFAULT 0,
    CONSTRAINT pk_conversations PRIMARY KEY (id),
    CONSTRAINT ck_conversations_id_not_empty CHECK (id <> '')
);
CREATE INDEX ix_conversations_participants ON conversations USING gin (participants)
    WHERE participants <> '{}';
CREATE INDEX ix_conversations_tenant_principal ON conversations (tenant, principal, id DESC);

CREATE TABLE events (
    tenant text NOT NULL,
    conversation_id text NOT NULL,
    seq bigint NOT NULL,
    run_id text,
    turn_id text,
    step bigint,
    type text NOT NULL,
    trust smallint NOT NULL,
    at timestamptz NOT NULL,
    data jsonb NOT NULL,
    body bytea NOT NULL,
    private bytea,
    prev_hash bytea NOT NULL,
    hash bytea NOT NULL,
    CONSTRAINT pk_events PRIMARY KEY (conversation_id, seq),
    CONSTRAINT ck_events_conversation_id_not_empty CHECK (conversation_id <> '')
);
CREATE INDEX ix_events_checkpoints ON events (conversation_id, seq DESC)
    WHERE type = 'run.checkpointed';
CREATE INDEX ix_events_history ON events (conversation_id, seq)
    WHERE type <> ALL ('{text.delta,reasoning.delta}'::text[]);
CREATE INDEX ix_events_quarantined ON events (conversation_id, seq DESC)
    WHERE trust = 2;
CREATE INDEX ix_events_run_id_seq ON events (run_id, seq)
    WHERE run_id IS NOT NULL;
"""

RUNS = """
CREATE TABLE runs (
    id text NOT NULL,
    tenant text NOT NULL,
    conversation_id text NOT NULL,
    agent text NOT NULL,
    agent_digest text NOT NULL,
    principal text NOT NULL,
    status text NOT NULL,
    answer json,
    error json,
    input_tokens bigint NOT NULL DEFAULT 0,
    output_tokens bigint NOT NULL DEFAULT 0,
    total_tokens bigint NOT NULL DEFAULT 0,
    cached_input_tokens bigint NOT NULL DEFAULT 0,
    cache_creation_input_tokens bigint NOT NULL DEFAULT 0,
    tool_use_prompt_tokens bigint NOT NULL DEFAULT 0,
    reasoning_tokens bigint NOT NULL DEFAULT 0,
    steps bigint NOT NULL DEFAULT 0,
    tainted boolean NOT NULL DEFAULT false,
    unattended boolean NOT NULL DEFAULT false,
    goes_next boolean NOT NULL DEFAULT false,
    max_steps bigint,
    attempts bigint NOT NULL DEFAULT 0,
    created_seq bigint NOT NULL,
    created_at timestamptz NOT NULL,
    started_at timestamptz,
    ended_at timestamptz,
    metadata json NOT NULL,
    CONSTRAINT pk_runs PRIMARY KEY (id),
    CONSTRAINT ck_runs_id_not_empty CHECK (id <> '')
);
CREATE INDEX ix_runs_conversation_id_created_seq ON runs (conversation_id, created_seq);
CREATE INDEX ix_runs_open ON runs (conversation_id)
    WHERE ended_at IS NULL;
CREATE INDEX ix_runs_open_of_principal ON runs (tenant, principal)
    WHERE ended_at IS NULL;
CREATE INDEX ix_runs_tenant_principal ON runs (tenant, principal, id DESC);

CREATE TABLE approvals (
    id text NOT NULL,
    tenant text NOT NULL,
    conversation_id text NOT NULL,
    run_id text NOT NULL,
    call_id text NOT NULL,
    principal text NOT NULL,
    agent text NOT NULL,
    tool text NOT NULL,
    title text NOT NULL,
    reason text NOT NULL,
    roles text[] NOT NULL,
    programs text[] NOT NULL,
    status text NOT NULL,
    card json NOT NULL,
    tool_definition_digest text NOT NULL,
    args_canonical text NOT NULL,
    args_sha256 text NOT NULL,
    requested_seq bigint NOT NULL,
    expires_at timestamptz,
    resolved_at timestamptz,
    resolved_by text,
    superseded_by text,
    effective_args text,
    effective_args_sha256 text,
    refusals bigint NOT NULL DEFAULT 0,
    CONSTRAINT pk_approvals PRIMARY KEY (id),
    CONSTRAINT ck_approvals_id_not_empty CHECK (id <> '')
);
CREATE INDEX ix_approvals_expiring ON approvals (expires_at)
    WHERE status = 'pending';
CREATE INDEX ix_approvals_run_id ON approvals (run_id);
CREATE INDEX ix_approvals_tenant ON approvals (tenant, id DESC);

CREATE TABLE decisions (
    tenant text NOT NULL,
    approval_id text NOT NULL,
    approver text NOT NULL,
    decision text NOT NULL,
    conversation_id text NOT NULL,
    seq bigint NOT NULL,
    caller text NOT NULL,
    assurance text NOT NULL,
    key_id text NOT NULL,
    scope text NOT NULL,
    covered_capabilities text[] NOT NULL,
    override_args text,
    note text,
    reason text,
    sandbox_mode text,
    payload_sha256 text NOT NULL,
    effective_args_sha256 text,
    signed bytea NOT NULL,
    at timestamptz NOT NULL,
    CONSTRAINT pk_decisions PRIMARY KEY (approval_id, approver, decision),
    CONSTRAINT ck_decisions_approval_id_not_empty CHECK (approval_id <> ''),
    CONSTRAINT ck_decisions_approver_not_empty CHECK (approver <> '')
);

CREATE TABLE tool_executions (
    tenant text NOT NULL,
    conversation_id text NOT NULL,
    run_id text NOT NULL,
    call_id text NOT NULL,
    attempt bigint NOT NULL,
    settled boolean NOT NULL DEFAULT false,
    CONSTRAINT pk_tool_executions PRIMARY KEY (run_id, call_id),
    CONSTRAINT ck_tool_executions_run_id_not_empty CHECK (run_id <> ''),
    CONSTRAINT ck_tool_executions_call_id_not_empty CHECK (call_id <> '')
);

CREATE TABLE questions (
    id text NOT NULL,
    tenant text NOT NULL,
    conversation_id text NOT NULL,
    run_id text NOT NULL,
    call_id text NOT NULL,
    status text NOT NULL,
    card json NOT NULL,
    answers json,
    answered_by text,
    asked_seq bigint NOT NULL,
    asked_at timestamptz NOT NULL,
    expires_at timestamptz,
    CONSTRAINT pk_questions PRIMARY KEY (id),
    CONSTRAINT ck_questions_id_not_empty CHECK (id <> '')
);
CREATE INDEX ix_questions_run_id ON questions (run_id);

CREATE TABLE session_approvals (
    tenant text NOT NULL,
    conversation_id text NOT NULL,
    principal text NOT NULL,
    agent text NOT NULL,
    tool text NOT NULL,
    covered_capabilities text[] NOT NULL,
    tool_definition_digest text NOT NULL,
    approval_id text NOT NULL,
    at timestamptz NOT NULL,
    CONSTRAINT pk_session_approvals PRIMARY KEY (conversation_id, principal, agent, tool)
);
"""

ACCESS = """
CREATE TABLE agents (
    tenant text NOT NULL,
    name text NOT NULL,
    spec json NOT NULL,
    digest text NOT NULL,
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL,
    CONSTRAINT pk_agents PRIMARY KEY (tenant, name),
    CONSTRAINT ck_agents_name_not_empty CHECK (name <> '')
);

CREATE TABLE approver_keys (
    id text NOT NULL,
    tenant text NOT NULL,
    principal text NOT NULL,
    thumbprint text NOT NULL,
    public_jwk json NOT NULL,
    label text NOT NULL,
    created_at timestamptz NOT NULL,
    revoked_at timestamptz,
    reset_at timestamptz,
    CONSTRAINT pk_approver_keys PRIMARY KEY (id),
    CONSTRAINT ck_approver_keys_id_not_empty CHECK (id <> ''),
    CONSTRAINT uq_approver_keys_tenant_thumbprint UNIQUE (tenant, thumbprint)
);
CREATE INDEX ix_approver_keys_tenant_principal ON approver_keys (tenant, principal, id DESC);

CREATE TABLE idempotency_keys (
    tenant text NOT NULL,
    principal text NOT NULL,
    key text NOT NULL,
    fingerprint text NOT NULL,
    status smallint,
    headers json,
    body bytea,
    created_at timestamptz NOT NULL,
    CONSTRAINT pk_idempotency_keys PRIMARY KEY (tenant, principal, key),
    CONSTRAINT ck_idempotency_keys_key_not_empty CHECK (key <> '')
);
CREATE INDEX ix_idempotency_keys_created_at ON idempotency_keys (created_at);

CREATE TABLE nonces (
    tenant text NOT NULL,
    nonce text NOT NULL,
    payload_sha256 text NOT NULL,
    CONSTRAINT pk_nonces PRIMARY KEY (tenant, nonce),
    CONSTRAINT ck_nonces_nonce_not_empty CHECK (nonce <> '')
);

CREATE TABLE revocations (
    tenant text NOT NULL,
    kind text NOT NULL,
    value text NOT NULL,
    before timestamptz,
    at timestamptz NOT NULL,
    CONSTRAINT pk_revocations PRIMARY KEY (tenant, kind, value),
    CONSTRAINT ck_revocations_kind CHECK (kind IN ('jti', 'sub')),
    CONSTRAINT ck_revocations_value_not_empty CHECK (value <> '')
);
CREATE INDEX ix_revocations_at ON revocations (at);

CREATE TABLE workspace_files (
    tenant text NOT NULL,
    conversation_id text NOT NULL,
    path text NOT NULL,
    content bytea NOT NULL,
    trust smallint NOT NULL,
    updated_at timestamptz NOT NULL,
    CONSTRAINT pk_workspace_files PRIMARY KEY (conversation_id, path),
    CONSTRAINT ck_workspace_files_path_not_empty CHECK (path <> '')
);

CREATE TABLE stream_holds (
    tenant text NOT NULL,
    run_id text NOT NULL,
    holder text NOT NULL,
    principal text NOT NULL,
    window_events bigint NOT NULL,
    acked_seq bigint NOT NULL,
    renewed_at timestamptz NOT NULL,
    demoted_at timestamptz,
    CONSTRAINT pk_stream_holds PRIMARY KEY (run_id, holder),
    CONSTRAINT ck_stream_holds_run_id_not_empty CHECK (run_id <> ''),
    CONSTRAINT ck_stream_holds_holder_not_empty CHECK (holder <> '')
);
"""

# Room on the page keeps an update of head, lease or status from touching any index.
TUNING = """
ALTER TABLE conversations SET (fillfactor = 50);
ALTER TABLE runs SET (fillfactor = 70);
ALTER TABLE tool_executions SET (fillfactor = 70);
"""

IMMUTABLE = """
CREATE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'the event log is append-only: % refused', TG_OP;
END
$$;
CREATE TRIGGER events_are_immutable BEFORE UPDATE OR DELETE ON events
    FOR EACH ROW EXECUTE FUNCTION refuse_change();
CREATE TRIGGER events_are_kept BEFORE TRUNCATE ON events
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
"""

TABLES = """
stream_holds, workspace_files, revocations, nonces, idempotency_keys, approver_keys, agents,
session_approvals, questions, tool_executions, decisions, approvals, runs,
events, conversations, principals, tenants
"""


def upgrade() -> None:
    for part in (LOG, RUNS, ACCESS, TUNING, IMMUTABLE):
        for statement in _statements(part):
            op.execute(statement)


def downgrade() -> None:
    op.execute("DROP TABLE " + TABLES)
    op.execute("DROP FUNCTION refuse_change()")


def _statements(part: str) -> list[str]:
    """asyncpg prepares one statement at a time; only a function's body has a `;` of its own."""
    if "$$" not in part:
        return [statement for statement in part.split(";\n") if statement.strip()]
    function, _, rest = part.partition("$$;\n")
    return [function + "$$", *_statements(rest)]
