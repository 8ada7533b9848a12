"""MCP servers, and what is pinned of them."""

from __future__ import annotations

from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute(
        """
        CREATE TABLE mcp_servers (
            tenant text NOT NULL,
            name text NOT NULL,
            transport text NOT NULL,
            url text,
            command text,
            headers json NOT NULL,
            registered boolean NOT NULL DEFAULT false,
            profile json NOT NULL,
            tools json NOT NULL,
            refused json NOT NULL,
            why_not text,
            version bigint NOT NULL,
            created_at timestamptz NOT NULL,
            listed_at timestamptz,
            CONSTRAINT pk_mcp_servers PRIMARY KEY (tenant, name),
            CONSTRAINT ck_mcp_servers_name_not_empty CHECK (name <> '')
        )
        """
    )


def downgrade() -> None:
    op.execute("DROP TABLE mcp_servers")
