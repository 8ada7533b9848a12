"""Who embedded a turn stands at the turn: those without a vector are counted without vectors."""

from __future__ import annotations

from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None

# White space of Unicode in the octets of UTF-8, as `encode` writes them: what is beyond ASCII in
# octal. A text may hold what is no text to Postgres, so it cannot be decoded here.
_BLANK = (
    r"^([\x09-\x0d\x1c-\x20]|\\302\\(205|240)|\\341\\232\\200|\\343\\200\\200"
    r"|\\342\\(200\\2(0[0-7]|1[0-2]|5[017])|201\\237))*$"
)


def upgrade() -> None:
    # Empty: nobody yet. NULL: there is nothing to embed.
    op.execute("ALTER TABLE memory_turns ADD COLUMN embedded_by text DEFAULT ''")
    op.execute(
        """
        UPDATE memory_turns SET embedded_by = NULL
        WHERE encode(user_message || assistant_response, 'escape') ~ 'BLANK'
        """.replace("BLANK", _BLANK)
    )
    op.execute(
        """
        DO $$ BEGIN
        IF to_regclass('memory_vectors') IS NOT NULL THEN
            UPDATE memory_turns AS turns SET embedded_by = vectors.embedder
            FROM memory_vectors AS vectors
            WHERE vectors.tenant = turns.tenant AND vectors.turn_id = turns.turn_id;
        END IF;
        END $$
        """
    )
    op.execute(
        """
        CREATE INDEX ix_memory_turns_embedded ON memory_turns
            (tenant, principal, embedded_by, conversation_id)
        """
    )


def downgrade() -> None:
    op.execute("ALTER TABLE memory_turns DROP COLUMN embedded_by")
