"""A session remembers up to which event its memory was deleted, so that nothing brings it back."""

from __future__ import annotations

from alembic import op

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("ALTER TABLE memory_state ADD COLUMN forgotten_through bigint NOT NULL DEFAULT 0")


def downgrade() -> None:
    op.execute("DELETE FROM memory_state WHERE strategy = 'none'")
    op.execute("ALTER TABLE memory_state DROP COLUMN forgotten_through")
