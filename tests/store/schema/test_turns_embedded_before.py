"""Databases from before revision 0013: the migration says of each turn who embedded it."""

from __future__ import annotations

import asyncio

import asyncpg
import pytest

from alembic import command
from app.store.schema.migrations import alembic_config, migrate
from tests.store.schema.test_migrations import empty

__all__ = ["empty"]

pytestmark = [pytest.mark.postgres, pytest.mark.vectors]

# All white space there is, and text that could be taken for its octets.
TURNS = {
    "blank": "".join(filter(str.isspace, map(chr, range(0x110000)))),
    "empty": "",
    "octets": "\\302\\240",
    "near": "\u200b",
    "odd": "\0 \ud800",
    "said": "a cake",
    "found": "deploy",
}
ADD = """
INSERT INTO memory_turns (tenant, principal, conversation_id, seq, turn_id, run_id, user_message,
    assistant_response, trust, digest, artifacts_shown, artifacts_hidden)
VALUES ('t', 'alice', 'conv_1', $1, $2, '', $3, ' ', 1, '', '{}', '{}')"""
EMBED = """
INSERT INTO memory_vectors (tenant, turn_id, principal, conversation_id, at, embedder, embedding)
VALUES ('t', 'found', 'alice', 'conv_1', now(), 'words:1', '[1,0]')"""


def test_turns_of_an_older_release_are_told_apart(empty: str) -> None:
    asyncio.run(migrate(empty))
    command.downgrade(alembic_config(empty), "0012")
    asyncio.run(filled(empty))
    command.upgrade(alembic_config(empty), "head")
    assert asyncio.run(embedders(empty)) == {
        "blank": None,
        "empty": None,
        "octets": "",
        "near": "",
        "odd": "",
        "said": "",
        "found": "words:1",
    }


async def filled(dsn: str) -> None:
    connection = await asyncpg.connect(dsn)
    try:
        for seq, (turn_id, text) in enumerate(TURNS.items()):
            await connection.execute(ADD, seq, turn_id, text.encode(errors="surrogatepass"))
        await connection.execute(EMBED)
    finally:
        await connection.close()


async def embedders(dsn: str) -> dict[str, str | None]:
    connection = await asyncpg.connect(dsn)
    try:
        rows = await connection.fetch("SELECT turn_id, embedded_by FROM memory_turns")
    finally:
        await connection.close()
    return {row["turn_id"]: row["embedded_by"] for row in rows}
