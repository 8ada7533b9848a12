"""Artifacts whose bytes lie in a bucket, and the objects there that no artifact needs."""

from __future__ import annotations

from alembic import op

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("ALTER TABLE artifacts ALTER COLUMN content DROP NOT NULL")
    op.execute(
        """
        CREATE TABLE artifact_leftovers (
            tenant text NOT NULL,
            key text NOT NULL,
            due_at timestamptz NOT NULL,
            CONSTRAINT pk_artifact_leftovers PRIMARY KEY (key),
            CONSTRAINT ck_artifact_leftovers_key_not_empty CHECK (key <> '')
        )
        """
    )
    op.execute("CREATE INDEX ix_artifact_leftovers_due_at ON artifact_leftovers (due_at)")


def downgrade() -> None:
    # Fails, and so loses nothing, while there are artifacts whose bytes lie in a bucket.
    op.execute("ALTER TABLE artifacts ALTER COLUMN content SET NOT NULL")
    op.execute("DROP TABLE artifact_leftovers")
