"""Artifacts whose bytes lie in pieces, so that they are written and read as they come."""

from __future__ import annotations

from alembic import op

revision = "0020"
down_revision = "0019"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # Older artifacts stay as they are: whole in their row, or in the bucket without digests.
    op.execute(
        """
        ALTER TABLE artifacts ADD COLUMN in_pieces boolean NOT NULL DEFAULT false,
            ADD COLUMN piece_bytes bigint, ADD COLUMN piece_digests bytea
        """
    )
    op.execute(
        """
        ALTER TABLE artifact_leftovers ADD COLUMN in_pieces boolean NOT NULL DEFAULT false,
            DROP CONSTRAINT pk_artifact_leftovers,
            ADD CONSTRAINT pk_artifact_leftovers PRIMARY KEY (key, in_pieces)
        """
    )
    op.execute(
        """
        CREATE TABLE artifact_pieces (
            tenant text NOT NULL,
            key text NOT NULL,
            position bigint NOT NULL,
            content bytea NOT NULL,
            CONSTRAINT pk_artifact_pieces PRIMARY KEY (key, position),
            CONSTRAINT ck_artifact_pieces_key_not_empty CHECK (key <> '')
        )
        """
    )
    op.execute("ALTER TABLE artifact_pieces ALTER COLUMN content SET STORAGE EXTERNAL")


def downgrade() -> None:
    op.execute(
        """
        UPDATE artifacts SET content = (SELECT string_agg(p.content, ''::bytea ORDER BY p.position)
            FROM artifact_pieces p WHERE p.key = artifacts.id)
        WHERE in_pieces
        """
    )
    op.execute("DELETE FROM artifact_leftovers WHERE in_pieces")
    op.execute("DROP TABLE artifact_pieces")
    op.execute(
        """
        ALTER TABLE artifact_leftovers DROP CONSTRAINT pk_artifact_leftovers,
            DROP COLUMN in_pieces, ADD CONSTRAINT pk_artifact_leftovers PRIMARY KEY (key)
        """
    )
    op.execute(
        """
        ALTER TABLE artifacts DROP COLUMN in_pieces, DROP COLUMN piece_bytes,
            DROP COLUMN piece_digests
        """
    )
