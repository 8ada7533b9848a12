"""The contract around embedders, the built-in one, and the endpoint over a real socket."""

from __future__ import annotations

import logging
import math
import socket
from typing import TYPE_CHECKING

import pytest

from app.errors import Misconfigured
from app.ids import Identity
from app.providers.embedding import ContractEmbedder
from app.providers.wordllama import WordLlamaVectors
from app.runctx.memory import EmbeddingFailed

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
