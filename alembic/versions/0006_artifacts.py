"""Artifacts: files that people upload and results that are too long for a model."""

from __future__ import annotations

from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute(
        """
        CREATE TABLE artifacts (
            id text NOT NULL,
            tenant text NOT NULL,
            principal text NOT NULL,
            conversation_id text NOT NULL,
            namespace text NOT NULL,
            sha256 text NOT NULL,
            mime text NOT NULL,
            sniffed text NOT NULL,
            size_bytes bigint NOT NULL,
            filename text,
            tool text,
            run_id text,
            stored_by text NOT NULL,
            trust smallint NOT NULL,
            created_at timestamptz NOT NULL,
            content bytea NOT NULL,
            CONSTRAINT pk_artifacts PRIMARY KEY (id),
            CONSTRAINT uq_artifacts_tenant_principal_conversation_id_namespace_sha256
                UNIQUE (tenant, principal, conversation_id, namespace, sha256),
            CONSTRAINT ck_artifacts_id_not_empty CHECK (id <> '')
        )
        """
    )
    op.execute(
        "CREATE INDEX ix_artifacts_tenant_conversation_id"
        " ON artifacts (tenant, conversation_id, id DESC)"
    )
    # Files are mostly compressed already, and one that is not is read in slices.
    op.execute("ALTER TABLE artifacts ALTER COLUMN content SET STORAGE EXTERNAL")


def downgrade() -> None:
    op.execute("DROP TABLE artifacts")
