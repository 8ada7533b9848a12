"""The newest summary of a conversation's history is found at once, however long the log."""

from __future__ import annotations

from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute(
        "CREATE INDEX ix_events_compactions ON events (conversation_id, seq DESC) "
        "WHERE type = 'history.compacted'"
    )


def downgrade() -> None:
    op.execute("DROP INDEX ix_events_compactions")
