"""A client that costs little: HTTP/1.1 and WebSocket over asyncio streams, nothing else.

It knows just what the servers of the bench send: answers with a length, and text frames.
"""

from __future__ import annotations

import asyncio
from base64 import b64encode
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import orjson

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

_KEY = b64encode(b"sixteen bytes ok").decode()
_TEXT, _CLOSE, _PING, _PONG = 0x1, 0x8, 0x9, 0xA


class BenchFailed(Exception):
    """A server answered otherwise than the bench needs."""


@dataclass(frozen=True, slots=True)
class Address:
    """A server, and the token to show it."""

    host: str
    port: int
    token: str = ""

    def head(self, method: str, path: str, *lines: str) -> bytes:
        """The head of a request."""
        common = [f"{method} {path} HTTP/1.1", f"Host: {self.host}:{self.port}"]
        if self.token:
            common.append(f"Authorization: Bearer {self.token}")
        return "\r\n".join([*common, *lines, "", ""]).encode()


class Http:
    """One connection that is kept alive."""

    def __init__(
        self, address: Address, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._address, self._reader, self._writer = address, reader, writer

    @classmethod
    async def connect(cls, address: Address) -> Self:
        """A connection to the server."""
        return cls(address, *await asyncio.open_connection(address.host, address.port))

    async def call(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """The document of a successful answer. Raises BenchFailed."""
        content = b"" if body is None else orjson.dumps(body)
        lines = (f"Content-Length: {len(content)}", "Content-Type: application/json")
        self._writer.write(self._address.head(method, path, *lines) + content)
        head = await self._reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0])
        answer = await self._reader.readexactly(length)
        if not head.startswith(b"HTTP/1.1 2"):
            raise BenchFailed(f"{method} {path}: {head[:60]!r} {answer!r}")
        return orjson.loads(answer) if answer else None

    async def close(self) -> None:
        """Close the connection."""
        self._writer.close()
        await self._writer.wait_closed()


class Stream:
    """A WebSocket that subscribes at once."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    @classmethod
    async def open(cls, address: Address, path: str, *, after: int = 0) -> Self:
        """The stream at `path`, subscribed after that seq."""
        reader, writer = await asyncio.open_connection(address.host, address.port)
        upgrade = ("Upgrade: websocket", "Connection: Upgrade", f"Sec-WebSocket-Key: {_KEY}")
        rest = ("Sec-WebSocket-Version: 13", "Sec-WebSocket-Protocol: turngate.v1")
        writer.write(address.head("GET", path, *upgrade, *rest))
        stream = cls(reader, writer)
        head = await reader.readuntil(b"\r\n\r\n")
        if not head.startswith(b"HTTP/1.1 101"):
            raise BenchFailed(f"{path}: {head[:80]!r}")
        stream._send(_TEXT, orjson.dumps({"type": "subscribe", "after": after}))
        return stream

    async def frames(self) -> AsyncIterator[bytes]:
        """Every text frame until the server closes."""
        while True:
            head = await self._reader.readexactly(2)
            size = head[1] & 0x7F
            if size > 125:
                size = int.from_bytes(
                    await self._reader.readexactly(2 if size == 126 else 8), "big"
                )
            payload = await self._reader.readexactly(size)
            match head[0] & 0x0F:
                case 0x1:
                    yield payload
                case 0x8:
                    self._send(_CLOSE, payload)
                    return
                case 0x9:
                    self._send(_PONG, payload)
                case _:
                    pass

    async def until(self, mark: bytes) -> bytes:
        """The next frame that has `mark` in it. Raises BenchFailed when there is none."""
        async for frame in self.frames():
            if mark in frame:
                return frame
        raise BenchFailed(f"the stream ended before {mark!r}")

    def _send(self, opcode: int, payload: bytes) -> None:
        """A masked frame; the mask is zero, which is a mask as well."""
        size = len(payload)
        lengths = bytes([0x80 | size]) if size < 126 else b"\xfe" + size.to_bytes(2, "big")
        self._writer.write(bytes([0x80 | opcode]) + lengths + bytes(4) + payload)

    async def close(self) -> None:
        """Drop the connection."""
        self._writer.close()
        await asyncio.gather(self._writer.wait_closed(), return_exceptions=True)
