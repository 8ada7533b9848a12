"""Recall by meaning: `python -m bench.recall` prints how often, and how fast, the right turn comes.

Quality is recall@5 over `recall_pairs`, the built-in vectors beside plain full text in Postgres.
Full text is the better of two: English stemming, or words as they are, any word being enough.
Speed is the search of one session alone, without the embedding, over random vectors.
"""

from __future__ import annotations

import asyncio
import os
from itertools import pairwise
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import TYPE_CHECKING, Final

from app.ids import Identity
from app.providers.embedding import MAX_TEXTS, ContractEmbedder
from app.providers.wordllama import WordLlamaVectors
from app.service.clock import SystemClock
from app.store.connections import open_pool
from app.store.migrations import migrate
from app.store.vectors import StoreVectors
from app.store.whereabouts import running_database
from bench.recall_pairs import PAIRS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from app.store.connections import Pool

TOP: Final = 5
SIZES: Final = ((10_000, "10 ms"), (200_000, "20 ms"))
QUESTIONS: Final = 100
DIMENSION: Final = 256
WHO: Final = Identity("bench", "alice", "conv_quality")

_WORDS: Final = """
WITH asked AS (
    SELECT replace(plainto_tsquery($2::text::regconfig, $3)::text, '&', '|')::tsquery AS query
)
SELECT n FROM asked, unnest($1::text[]) WITH ORDINALITY AS turn (said, n)
WHERE to_tsvector($2::text::regconfig, said) @@ query
ORDER BY ts_rank(to_tsvector($2::text::regconfig, said), query) DESC, n LIMIT $4"""

# Turns lie around a thousand topics, as talk does; rows of pure noise have no neighbours.
_PARTS: Final = """
CREATE TEMP TABLE parts AS
SELECT part, array_agg((random() - 0.5)::real)::vector AS topic,
    array_agg(((random() - 0.5) / 2)::real)::vector AS aside
FROM generate_series(0, 999) AS part, generate_series(1, 256) GROUP BY part"""
_ROWS: Final = """
INSERT INTO memory_vectors (tenant, turn_id, principal, conversation_id, at, embedder, embedding)
SELECT 'bench', $1 || n, 'alice', $1, now(), $1, one.topic + other.aside
FROM generate_series(1, $2::int) AS n
    JOIN parts AS one ON one.part = n % 1000
    JOIN parts AS other ON other.part = (n / 1000 + 31 * n) % 1000"""
_SOME: Final = """
SELECT embedding::real[] AS vector FROM memory_vectors
WHERE conversation_id = $1 ORDER BY turn_id LIMIT $2"""


async def _by_meaning(pool: Pool, embedder: ContractEmbedder) -> float:
    vectors = StoreVectors(pool, embedder.id, dimension=embedder.dimension)
    await vectors.prepare()
    now = SystemClock().now()
    turns = await _embedded(embedder, [turn for _, turn in PAIRS])
    async with pool.acquire() as connection:
        for n, vector in enumerate(turns):
            await vectors.put(connection, WHO, f"turn_{n}", at=now, vector=vector)
    hits = 0
    for n, asked in enumerate(await _embedded(embedder, [question for question, _ in PAIRS])):
        found = await vectors.nearest(WHO, asked, top_k=TOP, scope="session")
        hits += f"turn_{n}" in {one.turn_id for one in found}
    return hits / len(PAIRS)


async def _embedded(embedder: ContractEmbedder, texts: Sequence[str]) -> list[list[float]]:
    vectors: list[list[float]] = []
    for at in range(0, len(texts), MAX_TEXTS):
        vectors += await embedder.embed(texts[at : at + MAX_TEXTS], identity=WHO)
    return vectors


async def _by_words(pool: Pool, configuration: str) -> float:
    turns = [turn for _, turn in PAIRS]
    hits = 0
    for n, (question, _) in enumerate(PAIRS, start=1):
        rows = await pool.fetch(_WORDS, turns, configuration, question, TOP)
        hits += n in {row["n"] for row in rows}
    return hits / len(PAIRS)


async def _latency(pool: Pool, size: int) -> float:
    """Milliseconds of a search among so many turns of one session, p50."""
    session = f"conv_{size}"
    vectors = StoreVectors(pool, session, dimension=DIMENSION)
    async with pool.acquire() as connection:
        await connection.execute(_PARTS)
        await connection.execute(_ROWS, session, size)
        await connection.execute("DROP TABLE parts")
    await vectors.prepare()
    await pool.execute("ANALYZE memory_vectors")
    rows = await pool.fetch(_SOME, session, QUESTIONS)
    who, took = Identity("bench", "alice", session), []
    for row, other in pairwise(rows):
        # Near a turn, and no turn's own vector.
        asked = [x + y / 4 for x, y in zip(row["vector"], other["vector"], strict=True)]
        begun = perf_counter()
        await vectors.nearest(who, asked, top_k=TOP, scope="session")
        took.append((perf_counter() - begun) * 1000)
    return median(took)


async def measure(folder: Path) -> list[str]:
    """The rows of the table, taken on a database of its own."""
    async with running_database(None, data_dir=folder) as dsn:
        await migrate(dsn)
        pool = await open_pool(dsn)
        try:
            words = max([await _by_words(pool, "english"), await _by_words(pool, "simple")])
            meaning = await _by_meaning(pool, ContractEmbedder(WordLlamaVectors()))
            rows = [f"| recall@{TOP}, {len(PAIRS)} questions | {meaning:.2f} | {words:.2f} | |"]
            for size, target in SIZES:
                took = await _latency(pool, size)
                rows.append(f"| search among {size:,} turns, p50 | {took:.1f} ms | | <= {target} |")
        finally:
            await pool.close()
    return rows


def main() -> None:
    """Measure and print."""
    with TemporaryDirectory(prefix="turngate-recall-") as name:
        load = os.getloadavg()[0]
        rows = asyncio.run(measure(Path(name)))
    print("| measure | by meaning | by full text | target |", "|---|---|---|---|", *rows, sep="\n")
    print(f"load average {load:.1f} before the first measure")


if __name__ == "__main__":
    main()
