"""Conversations know how far their log is sealed."""

from __future__ import annotations

from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # A log without seals is sealed from its beginning when its next turn ends.
    op.execute("ALTER TABLE conversations ADD COLUMN sealed_seq bigint NOT NULL DEFAULT 0")
    op.execute(
        """
        UPDATE conversations c SET sealed_seq = s.through_seq
        FROM (SELECT conversation_id, max((data ->> 'through_seq')::bigint) AS through_seq
            FROM events WHERE type = 'log.sealed' GROUP BY conversation_id) s
        WHERE c.id = s.conversation_id"""
    )


def downgrade() -> None:
    op.execute("ALTER TABLE conversations DROP COLUMN sealed_seq")
