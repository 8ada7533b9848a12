"""Nonces know when they were used, so that they can be forgotten."""

from __future__ import annotations

from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # By the clock of the database: a release that does not know the column may still be writing.
    op.execute("ALTER TABLE nonces ADD COLUMN used_at timestamptz NOT NULL DEFAULT now()")
    op.execute("CREATE INDEX ix_nonces_used_at ON nonces (used_at)")


def downgrade() -> None:
    op.execute("ALTER TABLE nonces DROP COLUMN used_at")
