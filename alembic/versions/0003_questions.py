"""Questions: which call each is about, who may answer it, and when it is over."""

from __future__ import annotations

from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

# No release has asked a question, so the defaults fill no row that anybody will read.
UPGRADE = (
    """
    ALTER TABLE questions
        DROP COLUMN answered_by,
        ADD COLUMN principal text NOT NULL DEFAULT '',
        ADD COLUMN roles text[] NOT NULL DEFAULT '{}',
        ADD COLUMN programs text[] NOT NULL DEFAULT '{}',
        ADD COLUMN turn_id text NOT NULL DEFAULT '',
        ADD COLUMN args_sha256 text NOT NULL DEFAULT ''
    """,
    """
    ALTER TABLE questions
        ALTER COLUMN principal DROP DEFAULT,
        ALTER COLUMN roles DROP DEFAULT,
        ALTER COLUMN programs DROP DEFAULT,
        ALTER COLUMN turn_id DROP DEFAULT,
        ALTER COLUMN args_sha256 DROP DEFAULT
    """,
    "CREATE INDEX ix_questions_expiring ON questions (expires_at) WHERE status = 'pending'",
    "CREATE INDEX ix_questions_tenant ON questions (tenant, id DESC)",
)
DOWNGRADE = (
    "DROP INDEX ix_questions_tenant",
    "DROP INDEX ix_questions_expiring",
    """
    ALTER TABLE questions
        DROP COLUMN principal,
        DROP COLUMN roles,
        DROP COLUMN programs,
        DROP COLUMN turn_id,
        DROP COLUMN args_sha256,
        ADD COLUMN answered_by text
    """,
)


def upgrade() -> None:
    for statement in UPGRADE:
        op.execute(statement)


def downgrade() -> None:
    for statement in DOWNGRADE:
        op.execute(statement)
