"""Bytes that are no HTTP request: a problem or a closed connection, and never a second request."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pytest

from tests.hostile.wire import Wire

if TYPE_CHECKING:
    from tests.support.api.server import Served

pytestmark = pytest.mark.asyncio(loop_scope="session")

MIB: Final = 1 << 20
GET: Final = b"GET /healthz HTTP/1.1\r\nHost: a\r\n"
POST: Final = b"POST /v1/runs HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
CHUNKED: Final = b"Transfer-Encoding: chunked\r\n"
SMUGGLED: Final = b"GET /readyz HTTP/1.1\r\nHost: a\r\n\r\n"

# The lengths of a body, said in a way that two readers could understand differently.
LENGTHS: Final = {
    "negative": b"Content-Length: -1\r\n\r\n{}",
    "with a sign": b"Content-Length: +2\r\n\r\n{}",
    "hexadecimal": b"Content-Length: 0x2\r\n\r\n{}",
    "empty": b"Content-Length: \r\n\r\n{}",
    "no number": b"Content-Length: two\r\n\r\n{}",
    "beyond 64 bits": b"Content-Length: 99999999999999999999999\r\n\r\n{}",
    "twice the same": b"Content-Length: 2\r\nContent-Length: 2\r\n\r\n{}",
    "twice": b"Content-Length: 0\r\nContent-Length: 34\r\n\r\n" + SMUGGLED,
    "a list": b"Content-Length: 2, 2\r\n\r\n{}",
    "and chunks": b"Content-Length: 5\r\n" + CHUNKED + b"\r\n0\r\n\r\n" + SMUGGLED,
    "after chunks": CHUNKED + b"Content-Length: 5\r\n\r\n0\r\n\r\n" + SMUGGLED,
}
CODINGS: Final = {
    "an unknown one": b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    "chunks not last": b"Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
    "a blank before the colon": b"Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
    "a vertical tab": b"Transfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n",
    "a folded line": b"Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n",
}
CHUNKS: Final = {
    "no length": b"\r\n{}\r\n0\r\n\r\n",
    "no hexadecimal": b"ZZ\r\n{}\r\n0\r\n\r\n",
    "negative": b"-2\r\n{}\r\n0\r\n\r\n",
    "beyond 64 bits": b"FFFFFFFFFFFFFFFFF\r\n{}\r\n0\r\n\r\n",
    "too short": b"1\r\n{}\r\n0\r\n\r\n",
    "a bare line feed": b"2\n{}\n0\n\n",
    "a trailer that is none": b"2\r\n{}\r\n0\r\nno trailer\r\n\r\n",
}
HEADS: Final = {
    "a method with a sign": b"GET@ / HTTP/1.1\r\nHost: a\r\n\r\n",
    "a method nobody knows": b"BREW /pot HTTP/1.1\r\nHost: a\r\n\r\n",
    "CONNECT to elsewhere": b"CONNECT evil.example:80 HTTP/1.1\r\nHost: a\r\n\r\n",
    "NUL in the path": b"GET /v1\0/runs HTTP/1.1\r\nHost: a\r\n\r\n",
    "bytes beyond ASCII in the path": b"GET /v1/\xff HTTP/1.1\r\nHost: a\r\n\r\n",
    "a blank in the path": b"GET /v1/ runs HTTP/1.1\r\nHost: a\r\n\r\n",
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "HTTP/9.9": b"GET / HTTP/9.9\r\nHost: a\r\n\r\n",
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01",
    "bare line feeds": b"GET / HTTP/1.1\nHost: a\n\n",
    "a header with NUL": GET + b"X-A: a\0b\r\n\r\n",
    "a header with a bare return": GET + b"X-A: a\rX-B: b\r\n\r\n",
    "a folded header": GET + b"X-A: a\r\n b\r\n\r\n",
    "a header without a colon": GET + b"X-A\r\n\r\n",
    "a header without a name": GET + b": a\r\n\r\n",
    "a header with a bracket": GET + b"X(A): a\r\n\r\n",
    **{f"a length that is {name}": POST + sent for name, sent in LENGTHS.items()},
    **{f"a coding with {name}": POST + sent for name, sent in CODINGS.items()},
    **{f"a chunk with {name}": POST + CHUNKED + b"\r\n" + sent for name, sent in CHUNKS.items()},
}


@pytest.mark.parametrize("sent", HEADS.values(), ids=HEADS.keys())
async def test_what_is_no_request_is_one_problem_and_the_end(port: Served, sent: bytes) -> None:
    async with Wire.to(port.address) as wire:
        await wire.send(sent)
        answer = await wire.answer()
        assert (answer.status, answer.code) == (400, "request.invalid")
        assert await wire.rest() == b""


@dataclass(frozen=True)
class Flood:
    """What never ends: how it begins, and what is repeated."""

    begin: bytes
    more: bytes


FLOODS: Final = {
    "a request line": Flood(b"GET /", b"a"),
    "a query": Flood(b"GET /v1/runs?a=", b"a"),
    "a header's name": Flood(GET, b"a"),
    "a header": Flood(GET + b"X-A: ", b"a"),
    "headers": Flood(GET, b"X-A: a\r\n"),
    "a chunk's extension": Flood(POST + CHUNKED + b"\r\n2;a=", b"a"),
    "trailers": Flood(POST + CHUNKED + b"\r\n2\r\n{}\r\n0\r\n", b"X-A: a\r\n"),
}


@pytest.mark.parametrize("flood", FLOODS.values(), ids=FLOODS.keys())
async def test_a_head_without_an_end_is_given_up(port: Served, flood: Flood) -> None:
    known = f"Host: a\r\nAuthorization: Bearer {port.token()}\r\n".encode()
    async with Wire.to(port.address) as wire:
        begin = flood.begin.replace(b"Host: a\r\n", known)
        await wire.send(begin + flood.more * (MIB // len(flood.more)))
        answer = await wire.answer()
        assert (answer.status, answer.code) == (400, "request.invalid")


async def test_a_head_of_sixty_thousand_bytes_is_read(port: Served) -> None:
    async with Wire.to(port.address) as wire:
        await wire.send(GET + b"X-A: " + b"a" * 60_000 + b"\r\n\r\n")
        assert (await wire.answer()).status == 200


async def test_a_body_that_is_cut_off_leaves_nothing_behind(port: Served) -> None:
    token = f"Authorization: Bearer {port.token()}\r\n".encode()
    async with Wire.to(port.address) as wire:
        await wire.send(POST + token + b'Content-Length: 99\r\n\r\n{"agent":')
        wire.finish()
        assert await wire.rest() == b""
    async with port.http() as http:
        assert (await http.get("/v1/runs")).json()["items"] == []


async def test_a_stream_that_has_begun_is_cut_off_and_not_followed_by_a_refusal(
    port: Served,
) -> None:
    talk = await port.talk()
    path = f"GET /v1/conversations/{talk.id}/events HTTP/1.1\r\nHost: a\r\n"
    asks = f"Accept: text/event-stream\r\nAuthorization: Bearer {port.token()}\r\n\r\n"
    async with Wire.to(port.address) as wire:
        await wire.send((path + asks).encode())
        assert (await wire.answer()).status == 200
        await wire.send(b"\0 no request\r\n\r\n")
        assert b"HTTP/1.1" not in await wire.rest()


async def test_a_request_after_what_is_none_is_not_answered(port: Served) -> None:
    async with Wire.to(port.address) as wire:
        await wire.send(GET + b"\r\n")
        assert (await wire.answer()).status == 200
        await wire.send(b"\0\r\n\r\n" + SMUGGLED)
        assert (await wire.answer()).code == "request.invalid"
        assert await wire.rest() == b""
