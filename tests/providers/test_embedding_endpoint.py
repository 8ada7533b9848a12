"""The endpoint's vectors over a real socket: their order, what is asked again, what has a bound."""

from __future__ import annotations

import asyncio
import inspect
import json
import socket
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest

from app.ids import Identity
from app.providers.embedding import ContractEmbedder
from app.providers.embedding_endpoint import EmbeddingEndpoint, EndpointVectors
from app.runctx.memory import EmbeddingFailed
from tests.support.loopback.web_server import WebServer, page, web_server

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

ALICE = Identity("acme", "alice", "conv_1")
PATH = "/v1/embeddings"
CHUNK = b" " * 16 * 1024
UNENDING = b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n"


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


@asynccontextmanager
async def played(
    answer: Callable[[asyncio.StreamWriter], Awaitable[None]],
) -> AsyncIterator[EmbeddingEndpoint]:
    """An endpoint that reads a request's head and is `answer` from there on."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.readuntil(b"\r\n\r\n")
            await answer(writer)
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    try:
        yield EmbeddingEndpoint(f"http://127.0.0.1:{port}/v1", "small", dimensions=2)
    finally:
        server.close()
        await server.wait_closed()


async def test_no_more_is_read_of_an_answer_without_end_than_its_bound() -> None:
    """Its sender goes on for ever, so only a reader that stops gets here."""
    sent = 0

    async def for_ever(writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        writer.write(UNENDING)
        try:
            while True:
                writer.write(CHUNK)
                await writer.drain()
                sent += len(CHUNK)
        except ConnectionError:
            pass

    async with played(for_ever) as where:
        vectors = EndpointVectors(where)
        with pytest.raises(EmbeddingFailed, match="more than 1048576 bytes"):
            await vectors.of(["a"])
        await vectors.aclose()
    # What lies between is what the sockets of both sides hold.
    assert 1024 * 1024 <= sent < 64 * 1024 * 1024


@pytest.mark.parametrize("head", [b"", UNENDING, UNENDING + b"{"], ids=["silent", "head", "begun"])
async def test_an_endpoint_that_stalls_fails_at_the_limit(head: bytes) -> None:
    """run-context.md 5.4: 10 s; here a hundredth of it, wherever the endpoint stops."""
    cut = asyncio.Event()

    async def stall(writer: asyncio.StreamWriter) -> None:
        writer.write(head)
        await cut.wait()

    async with played(stall) as where:
        vectors = EndpointVectors(where, limit_s=0.1)
        with pytest.raises(EmbeddingFailed, match="Timeout"):
            await vectors.of(["a"])
        cut.set()
        await vectors.aclose()


async def test_an_endpoint_that_drips_fails_at_the_limit_of_the_whole() -> None:
    """Each byte comes in time, and the answer never does."""

    async def drip(writer: asyncio.StreamWriter) -> None:
        writer.write(UNENDING)
        try:
            while not writer.transport.is_closing():
                writer.write(b" ")
                await writer.drain()
                await asyncio.sleep(0)
        except ConnectionError:
            pass

    async with played(drip) as where:
        vectors = EndpointVectors(where, limit_s=0.1)
        with pytest.raises(EmbeddingFailed, match="TimeoutError"):
            await vectors.of(["a"])
        await vectors.aclose()


def test_the_limit_is_ten_seconds() -> None:
    """run-context.md 5.4; nobody who opens an embedder gives another one."""
    assert inspect.signature(EndpointVectors).parameters["limit_s"].default == 10.0


async def test_waiting_for_the_next_attempt_counts_towards_the_limit() -> None:
    waiting = asyncio.Event()

    async def sleep(_: float) -> None:
        waiting.set()
        await asyncio.Event().wait()

    async with web_server() as web:
        served(web, status="503 Service Unavailable")
        where = EmbeddingEndpoint(web.url("/v1"), "small")
        with pytest.raises(EmbeddingFailed, match="TimeoutError"):
            await EndpointVectors(where, limit_s=0.1, sleep=sleep).of(["a"])
    assert waiting.is_set()
    assert len(web.seen) == 1


async def test_an_endpoint_that_is_not_there_is_an_error() -> None:
    def nobody_listens() -> str:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            return f"http://127.0.0.1:{free.getsockname()[1]}"

    with pytest.raises(EmbeddingFailed, match="ConnectError"):
        await EndpointVectors(EmbeddingEndpoint(nobody_listens(), "small")).of(["a"])
