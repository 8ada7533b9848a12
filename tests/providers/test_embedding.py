"""The contract around embedders, the built-in one, and the endpoint over a real socket."""

from __future__ import annotations

import json
import logging
import math
import socket
from typing import TYPE_CHECKING

import pytest

from app.errors import Misconfigured
from app.ids import Identity
from app.providers.embedding import ContractEmbedder
from app.providers.embedding_endpoint import EmbeddingEndpoint, EndpointVectors
from app.providers.wordllama import WordLlamaVectors
from app.runctx.memory import EmbeddingFailed
from tests.support.web_server import WebServer, page, web_server

if TYPE_CHECKING:
    from collections.abc import Sequence

ALICE = Identity("acme", "alice", "conv_1")
PATH = "/v1/embeddings"


class Played:
    """Vectors as a test has them; keeps what it was asked."""

    id = "played:2"

    def __init__(self, *vectors: list[float], dimension: int = 2) -> None:
        self.dimension = dimension
        self.vectors = vectors
        self.asked: list[str] = []

    async def of(self, texts: Sequence[str]) -> list[list[float]]:
        self.asked += texts
        return list(self.vectors)


async def test_a_vector_comes_back_with_unit_length() -> None:
    assert await ContractEmbedder(Played([3.0, 4.0])).embed(["a"], identity=ALICE) == [[0.6, 0.8]]


async def test_texts_are_made_sound_and_cut_at_a_code_point() -> None:
    played = Played([1.0, 0.0], [1.0, 0.0])
    await ContractEmbedder(played).embed(["a\ud800b", "x" + "é" * 5000], identity=ALICE)
    assert played.asked == ["a\ufffdb", "x" + "é" * 4095]


async def test_no_texts_ask_nothing() -> None:
    assert await ContractEmbedder(Played()).embed([], identity=ALICE) == []


@pytest.mark.parametrize(
    "vectors",
    [
        [],
        [[1.0, 0.0], [1.0, 0.0]],
        [[1.0]],
        [[0.0, 0.0]],
        [[math.nan, 1.0]],
        [[math.inf, 1.0]],
    ],
    ids=["none", "too many", "dimension", "zero", "nan", "infinite"],
)
async def test_a_vector_that_cannot_be_compared_is_an_error(vectors: list[list[float]]) -> None:
    with pytest.raises(EmbeddingFailed):
        await ContractEmbedder(Played(*vectors)).embed(["a"], identity=ALICE)


@pytest.mark.parametrize("texts", [[" \n"], ["a"] * 9], ids=["blank", "nine"])
async def test_what_may_not_be_embedded_asks_nothing(texts: list[str]) -> None:
    played = Played([1.0, 0.0])
    with pytest.raises(EmbeddingFailed):
        await ContractEmbedder(played).embed(texts, identity=ALICE)
    assert played.asked == []


@pytest.mark.parametrize("dimension", [0, 2001])
def test_a_dimension_that_no_index_takes_is_refused(dimension: int) -> None:
    with pytest.raises(Misconfigured, match="1 to 2000"):
        ContractEmbedder(Played(dimension=dimension))


async def test_c124_the_built_in_vectors_need_no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """C124: 256 finite numbers of unit length, equal for equal text alone or in a batch."""

    def no_network(*_: object) -> None:
        raise AssertionError("the built-in embedder opened a connection")

    monkeypatch.setattr(socket.socket, "connect", no_network)
    embedder = ContractEmbedder(WordLlamaVectors())
    (alone,) = await embedder.embed(["Where is the invoice?"], identity=ALICE)
    batch = ["a", "Where is the invoice?", "one much longer text " * 40]
    together = await embedder.embed(batch, identity=ALICE)
    assert embedder.id == "wordllama:l2_supercat:256"
    assert len(alone) == embedder.dimension == 256
    assert math.isclose(math.hypot(*alone), 1.0)
    assert together[1] == alone


async def test_loading_the_built_in_vectors_leaves_logging_as_it_is() -> None:
    root = logging.getLogger()
    before = (list(root.handlers), root.level)
    await WordLlamaVectors().of(["a"])
    assert (root.handlers, root.level) == before


async def test_what_means_the_same_is_nearer_than_what_does_not() -> None:
    embedder = ContractEmbedder(WordLlamaVectors())
    texts = ["the cat sleeps", "a kitten is asleep", "quarterly tax return"]
    cat, kitten, tax = await embedder.embed(texts, identity=ALICE)
    # Of unit vectors the nearer one has the shorter distance.
    assert math.dist(cat, kitten) < math.dist(cat, tax)


def served(web: WebServer, *vectors: tuple[int, list[float]], status: str = "200 OK") -> None:
    data = [{"object": "embedding", "index": at, "embedding": vector} for at, vector in vectors]
    web.pages[PATH] = page(json.dumps({"data": data}).encode(), status=status)


def endpoint(web: WebServer, *, waits: list[float] | None = None) -> EndpointVectors:
    async def sleep(seconds: float) -> None:
        if waits is not None:
            waits.append(seconds)

    where = EmbeddingEndpoint(web.url("/v1"), "small", "k-1", dimensions=2)
    return EndpointVectors(where, sleep=sleep)


async def test_c125_vectors_out_of_order_match_their_texts() -> None:
    """C125: answers are put in order by `index`."""
    async with web_server() as web:
        served(web, (1, [0.0, 2.0]), (0, [2.0, 0.0]))
        vectors = endpoint(web)
        found = await ContractEmbedder(vectors).embed(["a", "b"], identity=ALICE)
        await vectors.aclose()
    assert found == [[1.0, 0.0], [0.0, 1.0]]
    (request,) = web.seen
    assert json.loads(request.body) == {"model": "small", "input": ["a", "b"], "dimensions": 2}
    assert request.headers["authorization"] == "Bearer k-1"
    assert vectors.id == "endpoint:small:2"


@pytest.mark.parametrize(
    "vectors",
    [[(0, [1.0, 0.0])], [(0, [1.0, 0.0]), (0, [1.0, 0.0])], [(0, [1.0]), (2, [1.0])]],
    ids=["too few", "one twice", "unknown index"],
)
async def test_c125_a_wrong_count_is_an_error(vectors: list[tuple[int, list[float]]]) -> None:
    """C125: given a wrong count, then an error."""
    async with web_server() as web:
        served(web, *vectors)
        with pytest.raises(EmbeddingFailed, match="expected 2 vectors"):
            await endpoint(web).of(["a", "b"])


@pytest.mark.parametrize(
    ("status", "attempts"),
    [("429 Too Many Requests", 3), ("503 Service Unavailable", 3), ("400 Bad Request", 1)],
)
async def test_only_what_passes_is_asked_again(status: str, attempts: int) -> None:
    async with web_server() as web:
        served(web, status=status)
        waits: list[float] = []
        with pytest.raises(EmbeddingFailed, match=status[:3]):
            await endpoint(web, waits=waits).of(["a"])
    assert len(web.seen) == attempts
    assert len(waits) == attempts - 1


async def test_what_an_endpoint_says_is_in_no_message() -> None:
    async with web_server() as web:
        web.pages[PATH] = page(b'{"data": [{"index": 0, "embedding": "sk-secret"}]}')
        with pytest.raises(EmbeddingFailed) as caught:
            await endpoint(web).of(["a"])
    assert "sk-secret" not in str(caught.value)


async def test_an_answer_without_end_is_not_read() -> None:
    async with web_server() as web:
        web.pages[PATH] = page(b'{"data": []}' + b" " * 1024 * 1024)
        with pytest.raises(EmbeddingFailed, match="more than 1048576 bytes"):
            await endpoint(web).of(["a"])


async def test_an_endpoint_that_is_not_there_is_an_error() -> None:
    def nobody_listens() -> str:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            return f"http://127.0.0.1:{free.getsockname()[1]}"

    with pytest.raises(EmbeddingFailed, match="ConnectError"):
        await EndpointVectors(EmbeddingEndpoint(nobody_listens(), "small")).of(["a"])
