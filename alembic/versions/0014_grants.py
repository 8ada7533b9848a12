"""Remembered grants, and where each was used."""

from __future__ import annotations

from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute(
        """
        CREATE TABLE grants (
            id text NOT NULL,
            tenant text NOT NULL,
            conversation_id text NOT NULL,
            principal text NOT NULL,
            agent text NOT NULL,
            tool text NOT NULL,
            tool_definition_digest text NOT NULL,
            capabilities text[] NOT NULL,
            constraints json NOT NULL,
            coverage_hash text NOT NULL,
            passkey_id text NOT NULL,
            evidence bytea NOT NULL,
            enrolled_at timestamptz NOT NULL,
            expires_at timestamptz NOT NULL,
            revoked_at timestamptz,
            suspended_at timestamptz,
            CONSTRAINT pk_grants PRIMARY KEY (id),
            CONSTRAINT ck_grants_id_not_empty CHECK (id <> '')
        )
        """
    )
    op.execute("CREATE INDEX ix_grants_tenant_principal ON grants (tenant, principal, id DESC)")
    op.execute(
        """
        CREATE TABLE grant_uses (
            tenant text NOT NULL,
            conversation_id text NOT NULL,
            seq bigint NOT NULL,
            grant_id text NOT NULL,
            run_id text NOT NULL,
            call_id text NOT NULL,
            at timestamptz NOT NULL,
            CONSTRAINT pk_grant_uses PRIMARY KEY (conversation_id, seq)
        )
        """
    )
    op.execute("CREATE INDEX ix_grant_uses_tenant_grant_id_at ON grant_uses (tenant, grant_id, at)")


def downgrade() -> None:
    op.execute("DROP TABLE grant_uses")
    op.execute("DROP TABLE grants")
