"""The service's own public keys."""

from __future__ import annotations

from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute(
        """
        CREATE TABLE service_keys (
            kid text NOT NULL,
            public_jwk json NOT NULL,
            created_at timestamptz NOT NULL,
            CONSTRAINT pk_service_keys PRIMARY KEY (kid),
            CONSTRAINT ck_service_keys_kid_not_empty CHECK (kid <> '')
        )
        """
    )


def downgrade() -> None:
    op.execute("DROP TABLE service_keys")
