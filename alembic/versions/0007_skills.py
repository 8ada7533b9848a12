"""Skills: immutable revisions under a catalogue revision of the tenant."""

from __future__ import annotations

from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute(
        """
        CREATE TABLE skills (
            tenant text NOT NULL,
            owner text NOT NULL,
            name text NOT NULL,
            revision bigint NOT NULL,
            conversation_id text,
            is_deleted boolean NOT NULL DEFAULT false,
            origin text NOT NULL,
            trust smallint NOT NULL,
            digest text NOT NULL,
            head json NOT NULL,
            body json NOT NULL,
            files json NOT NULL,
            words tsvector NOT NULL,
            created_at timestamptz NOT NULL,
            updated_at timestamptz NOT NULL,
            CONSTRAINT pk_skills PRIMARY KEY (tenant, owner, name, revision),
            CONSTRAINT ck_skills_name_not_empty CHECK (name <> '')
        )
        """
    )
    op.execute("CREATE INDEX ix_skills_tenant_revision ON skills (tenant, revision)")


def downgrade() -> None:
    op.execute("DROP TABLE skills")
