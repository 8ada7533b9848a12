"""Recall by meaning: `python -m bench.recall` prints how often, and how fast, the right turn comes.

Quality is recall@5 over `recall_pairs`, the built-in vectors beside plain full text in Postgres.
Full text is the better of two: English stemming, or words as they are, any word being enough.
Speed is `recall_speed`'s. Rows are asked for as the service does, bound by row-level security.
It takes two to five minutes, most of them to make an index of 200,000 turns.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

from app.providers.embedding import ContractEmbedder
from app.providers.wordllama import WordLlamaVectors
from app.service.clock import SystemClock
from app.store.memory.vectors import StoreVectors
from app.store.schema.migrations import migrate
from app.store.server.connections import SESSION, open_pool
from app.store.server.row_security import OneTenant, service_role
from app.store.server.whereabouts import running_database
from bench import recall_speed
from bench.recall_pairs import PAIRS
from bench.recall_speed import TOP, WHO, embedded

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from app.store.server.connections import Pool

# The index of all turns is made in memory.
_OWNER: Final = {**SESSION, "maintenance_work_mem": "512MB"}

_WORDS: Final = """
WITH asked AS (
    SELECT replace(plainto_tsquery($2::text::regconfig, $3)::text, '&', '|')::tsquery AS query
)
SELECT n FROM asked, unnest($1::text[]) WITH ORDINALITY AS turn (said, n)
WHERE to_tsvector($2::text::regconfig, said) @@ query
ORDER BY ts_rank(to_tsvector($2::text::regconfig, said), query) DESC, n LIMIT $4"""


async def by_meaning(pool: Pool, embedder: ContractEmbedder) -> float:
    """Recall@5 of the embedder."""
    vectors = StoreVectors(pool, embedder.id, dimension=embedder.dimension)
    await vectors.prepare()
    now = SystemClock().now()
    turns = await embedded(embedder, [turn for _, turn in PAIRS])
    async with OneTenant(pool, WHO.tenant).transaction() as connection:
        for n, vector in enumerate(turns):
            await vectors.put(connection, WHO, f"turn_{n}", at=now, vector=vector)
    hits = 0
    for n, asked in enumerate(await embedded(embedder, [question for question, _ in PAIRS])):
        found = await vectors.nearest(WHO, asked, top_k=TOP, scope="session")
        hits += f"turn_{n}" in {one.turn_id for one in found}
    return hits / len(PAIRS)


async def by_words(pool: Pool) -> float:
    """Recall@5 of full text."""
    return max([await _by_words(pool, "english"), await _by_words(pool, "simple")])


async def _by_words(pool: Pool, configuration: str) -> float:
    turns = [turn for _, turn in PAIRS]
    hits = 0
    for n, (question, _) in enumerate(PAIRS, start=1):
        rows = await pool.fetch(_WORDS, turns, configuration, question, TOP)
        hits += n in {row["n"] for row in rows}
    return hits / len(PAIRS)


async def measure(folder: Path) -> AsyncIterator[str]:
    """The rows of the table as they come, taken on a database of its own."""
    embedder = ContractEmbedder(WordLlamaVectors())
    async with running_database(None, data_dir=folder) as dsn:
        await migrate(dsn)
        service = {**SESSION, **await service_role(dsn)}
        async with (
            await open_pool(dsn, settings=_OWNER) as owner,
            await open_pool(dsn, settings=service) as pool,
        ):
            words, meaning = await by_words(pool), await by_meaning(pool, embedder)
            yield f"| recall@{TOP}, {len(PAIRS)} questions | {meaning:.2f} | {words:.2f} | |"
            async for row in recall_speed.measure(owner, pool, embedder):
                yield row


async def _print_rows(folder: Path) -> None:
    print("| measure | by meaning | by full text | target |", "|---|---|---|---|", sep="\n")
    # A bench that is cut off has said something.
    async for row in measure(folder):
        print(row, flush=True)


def main() -> None:
    """Measure and print."""
    with TemporaryDirectory(prefix="turngate-recall-") as name:
        load = os.getloadavg()[0]
        asyncio.run(_print_rows(Path(name)))
    print(
        f"load average {load:.1f} before the first measure, {os.getloadavg()[0]:.1f} after the last"
    )


if __name__ == "__main__":
    main()
