"""Vectors of remembered turns, where the database has pgvector; any other one goes without."""

from __future__ import annotations

from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # Of no fixed dimension: vectors of several embedders may lie here while memory is rebuilt.
    op.execute(
        """
        DO $$ BEGIN
        IF NOT EXISTS (SELECT FROM pg_available_extensions WHERE name = 'vector') THEN
            RETURN;
        END IF;
        CREATE EXTENSION IF NOT EXISTS vector;
        CREATE TABLE memory_vectors (
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
        CREATE INDEX ix_memory_vectors_scope ON memory_vectors
            (tenant, principal, conversation_id, embedder);
        EXCEPTION WHEN insufficient_privilege THEN
            RAISE NOTICE 'memory.vectors_refused: this role may not create the extension vector';
        END $$
        """
    )


def downgrade() -> None:
    op.execute("DROP TABLE IF EXISTS memory_vectors")
