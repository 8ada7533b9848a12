"""Memory: the turns of sessions, and how far each strategy has folded them."""

from __future__ import annotations

from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute(
        """
        CREATE TABLE memory_turns (
            tenant text NOT NULL,
            principal text NOT NULL,
            conversation_id text NOT NULL,
            seq bigint NOT NULL,
            turn_id text NOT NULL,
            run_id text NOT NULL,
            user_message bytea NOT NULL,
            assistant_response bytea NOT NULL,
            trust smallint NOT NULL,
            digest text NOT NULL,
            artifacts_shown text[] NOT NULL,
            artifacts_hidden text[] NOT NULL,
            at timestamptz,
            created_at timestamptz NOT NULL DEFAULT now(),
            CONSTRAINT pk_memory_turns PRIMARY KEY (tenant, principal, conversation_id, seq),
            CONSTRAINT uq_memory_turns_tenant_turn_id UNIQUE (tenant, turn_id),
            CONSTRAINT ck_memory_turns_turn_id_not_empty CHECK (turn_id <> '')
        )
        """
    )
    op.execute(
        """
        CREATE UNIQUE INDEX ix_memory_turns_one_a_run ON memory_turns
            (tenant, principal, conversation_id, run_id) WHERE run_id <> ''
        """
    )
    op.execute("CREATE INDEX ix_memory_turns_created_at ON memory_turns (created_at)")
    op.execute(
        """
        CREATE TABLE memory_state (
            tenant text NOT NULL,
            principal text NOT NULL,
            conversation_id text NOT NULL,
            strategy text NOT NULL,
            model text NOT NULL,
            summary bytea NOT NULL,
            summary_trust smallint NOT NULL,
            folded_through bigint NOT NULL,
            health text NOT NULL,
            failures bigint NOT NULL,
            pending json NOT NULL,
            claim text,
            claimed_at timestamptz,
            updated_at timestamptz NOT NULL DEFAULT now(),
            CONSTRAINT pk_memory_state PRIMARY KEY (tenant, principal, conversation_id, strategy),
            CONSTRAINT ck_memory_state_strategy_not_empty CHECK (strategy <> '')
        )
        """
    )
    op.execute(
        """
        CREATE INDEX ix_memory_state_waiting ON memory_state (updated_at)
            WHERE pending::text <> '[]'
        """
    )


def downgrade() -> None:
    op.execute("DROP TABLE memory_state")
    op.execute("DROP TABLE memory_turns")
