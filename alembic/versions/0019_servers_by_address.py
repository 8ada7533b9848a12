"""The digests of an MCP server's tools hold where it is; those of older registrations do not."""

from __future__ import annotations

from alembic import op

revision = "0019"
down_revision = "0018"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # What was consented to under the old digests goes on for as long as the registration is there.
    op.execute("ALTER TABLE mcp_servers ADD COLUMN digests_address boolean NOT NULL DEFAULT false")


def downgrade() -> None:
    op.execute("ALTER TABLE mcp_servers DROP COLUMN digests_address")
