"""Passkeys of approvers, beside their keys."""

from __future__ import annotations

from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute(
        """
        CREATE TABLE passkeys (
            id text NOT NULL,
            tenant text NOT NULL,
            principal text NOT NULL,
            thumbprint text NOT NULL,
            credential_id bytea NOT NULL,
            public_key bytea NOT NULL,
            rp_id text NOT NULL,
            sign_count bigint NOT NULL,
            label text NOT NULL,
            created_at timestamptz NOT NULL,
            revoked_at timestamptz,
            reset_at timestamptz,
            CONSTRAINT pk_passkeys PRIMARY KEY (id),
            CONSTRAINT ck_passkeys_id_not_empty CHECK (id <> ''),
            CONSTRAINT uq_passkeys_tenant_thumbprint UNIQUE (tenant, thumbprint)
        )
        """
    )
    op.execute("CREATE INDEX ix_passkeys_tenant_principal ON passkeys (tenant, principal, id DESC)")


def downgrade() -> None:
    op.execute("DROP TABLE passkeys")
