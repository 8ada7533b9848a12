"""How fast a session is searched by meaning, and how often the index finds what comparing all does.

The whole search is timed: the question is embedded, its nearest turns are found and read, and those
without a vector are counted. Of each question the best of a few searches counts, for others may use
the machine. Its processor time is that of this process and of Postgres' together. The turns are
made up: the vector of each is the mean of eight words of `recall_pairs` taken by chance, which is
how the built-in vectors of texts come about as well.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from time import perf_counter, process_time
from typing import TYPE_CHECKING, Final

from app.ids import Identity
from app.providers.embedding import MAX_TEXTS
from app.store.memory.recall import StoreRecall
from app.store.memory.vectors import StoreVectors
from bench.recall_pairs import PAIRS
from bench.report import p50_p95

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from app.providers.embedding import ContractEmbedder
    from app.store.server.connections import Connection, Pool

TOP: Final = 5
TIMES: Final = 5
SIZES: Final = ((10_000, "p50 <= 10 ms"), (200_000, "p50 <= 20 ms"))
QUESTIONS: Final = [question for question, _ in PAIRS]
WHO: Final = Identity("bench", "alice", "conv_quality")

_WORDS: Final = """
CREATE TEMP TABLE words AS
SELECT n - 1 AS n, word::vector AS vector
FROM unnest($1::text[]) WITH ORDINALITY AS each (word, n)"""
# An index that is there already takes the rows one by one, which takes ten times as long.
_INDEXES: Final = """
SELECT indexname FROM pg_indexes
WHERE tablename = 'memory_vectors' AND indexdef LIKE '%USING hnsw%'"""
_VECTORS: Final = """
INSERT INTO memory_vectors (tenant, turn_id, principal, conversation_id, at, embedder, embedding)
SELECT 'bench', $1 || turn, 'alice', $1, now(), $3, l2_normalize(sum(vector))
FROM generate_series(1, $2::int) AS turn CROSS JOIN generate_series(1, 8) AS place
    JOIN words ON words.n = abs(hashint4(8 * turn + place)::bigint) % (SELECT count(*) FROM words)
GROUP BY turn"""
_TURNS: Final = """
INSERT INTO memory_turns (tenant, principal, conversation_id, seq, turn_id, run_id, user_message,
    assistant_response, trust, digest, artifacts_shown, artifacts_hidden, at, embedded_by)
SELECT 'bench', 'alice', $1, n, $1 || n, '', repeat('what was said ', 20)::bytea,
    repeat('what was answered ', 20)::bytea, 1, '', '{}', '{}', now(), $3
FROM generate_series(1, $2::int) AS n"""


@dataclass(frozen=True, slots=True)
class Took:
    """Seconds that each question takes at best, on the clock and of processors."""

    clock: list[float]
    processors: list[float]


async def measure(owner: Pool, pool: Pool, embedder: ContractEmbedder) -> AsyncIterator[str]:
    """The rows of the table; `owner` makes the turns, and `pool` is how the service connects."""
    recall = StoreRecall(pool, embedder)
    exact = StoreVectors(pool, embedder.id, dimension=embedder.dimension, exact_rows=max(SIZES)[0])
    indexed = StoreVectors(pool, embedder.id, dimension=embedder.dimension)
    vectors = await embedded(embedder, QUESTIONS)
    yield _row("a question embedded", await _embedding(embedder))
    for size, target in SIZES:
        who = Identity("bench", "alice", f"conv_{size}")
        async with owner.acquire() as connection:
            await _remember(connection, who.session, size, embedder)
        await StoreVectors(owner, embedder.id, dimension=embedder.dimension).prepare()
        await _found(indexed, who, vectors)  # What is read from now on was read before.
        took = await _searching(pool, recall, who)
        yield _row(f"search among {size:,} turns", took.clock, target)
        yield _row(f"search among {size:,} turns, processor time", took.processors)
        same = _share(await _found(indexed, who, vectors), await _found(exact, who, vectors))
        yield f"| the nearest {TOP} of {size:,} that comparing all finds | {same:.3f} | | |"


async def embedded(embedder: ContractEmbedder, texts: Sequence[str]) -> list[list[float]]:
    """Their vectors, as many at once as the embedder takes."""
    vectors: list[list[float]] = []
    for at in range(0, len(texts), MAX_TEXTS):
        vectors += await embedder.embed(texts[at : at + MAX_TEXTS], identity=WHO)
    return vectors


async def _remember(
    connection: Connection, session: str, size: int, embedder: ContractEmbedder
) -> None:
    words = sorted({word for pair in PAIRS for text in pair for word in text.split()})
    await connection.execute(_WORDS, [str(one) for one in await embedded(embedder, words)])
    for row in await connection.fetch(_INDEXES):
        await connection.execute(f"DROP INDEX {row['indexname']}")
    await connection.execute(_VECTORS, session, size, embedder.id)
    await connection.execute(_TURNS, session, size, embedder.id)
    await connection.execute("DROP TABLE words")
    for table in ("memory_vectors", "memory_turns"):
        await connection.execute(f"VACUUM ANALYZE {table}")


async def _embedding(embedder: ContractEmbedder) -> list[float]:
    took = []
    for question in QUESTIONS:
        begun = perf_counter()
        await embedder.embed([question], identity=WHO)
        took.append(perf_counter() - begun)
    return took


async def _searching(pool: Pool, recall: StoreRecall, who: Identity) -> Took:
    # One search after the other is always served by the same connection.
    backend = await pool.fetchval("SELECT pg_backend_pid()")
    clock: dict[str, list[float]] = {question: [] for question in QUESTIONS}
    processors: dict[str, list[float]] = {question: [] for question in QUESTIONS}
    for question in QUESTIONS * TIMES:
        worked, begun = process_time() + _worked(backend), perf_counter()
        await recall.search(who, question, top_k=TOP, scope="session")
        clock[question].append(perf_counter() - begun)
        processors[question].append(process_time() + _worked(backend) - worked)
    return Took([*map(min, clock.values())], [*map(min, processors.values())])


def _worked(process: int) -> float:
    """The seconds of processor time that a process of one thread has had."""
    return int(Path(f"/proc/{process}/schedstat").read_text().split()[0]) / 1e9


async def _found(
    vectors: StoreVectors, who: Identity, asked: Sequence[Sequence[float]]
) -> list[set[str]]:
    return [
        {near.turn_id for near in await vectors.nearest(who, one, top_k=TOP, scope="session")}
        for one in asked
    ]


def _share(found: Sequence[set[str]], expected: Sequence[set[str]]) -> float:
    both = sum(len(one & other) for one, other in zip(found, expected, strict=True))
    return both / sum(map(len, expected))


def _row(name: str, seconds: Sequence[float], target: str = "") -> str:
    p50, p95 = (1000 * each for each in p50_p95(seconds))
    return f"| {name}, p50 and p95 | {p50:.1f} and {p95:.1f} ms | | {target} |"
