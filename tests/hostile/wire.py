"""Raw sockets: bytes that no sound client sends, and what comes back before the connection ends."""

from __future__ import annotations

import asyncio
import json
import struct
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

PATIENCE_S = 20.0
MASK = b"mask"
KEY = b"dGhlIHNhbXBsZSBub25jZQ=="
CONTINUED, TEXT, BINARY, CLOSE, PING, PONG = 0x0, 0x1, 0x2, 0x8, 0x9, 0xA
Line = tuple[bytes, bytes]


@dataclass(frozen=True, slots=True)
class Answered:
    """One HTTP answer."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def code(self) -> str:
        """The code of the problem that it must be."""
        assert self.headers["content-type"] == "application/problem+json", self
        problem: dict[str, Any] = json.loads(self.body)
        assert problem["status"] == self.status
        assert problem["instance"] == self.headers["x-request-id"]
        code: str = problem["code"]
        return code


class Wire:
    """One connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    @asynccontextmanager
    async def to(cls, address: str) -> AsyncIterator[Self]:
        """A connection that is taken down at the end, however it stands."""
        host, _, port = address.removeprefix("http://").partition(":")
        async with asyncio.timeout(PATIENCE_S):
            reader, writer = await asyncio.open_connection(host, int(port))
            try:
                yield cls(reader, writer)
            finally:
                writer.transport.abort()

    async def send(self, data: bytes) -> None:
        """Write; what the other side does not take any more is lost."""
        self._writer.write(data)
        await self._writer.drain()

    def finish(self) -> None:
        """Nothing more is sent."""
        self._writer.write_eof()

    async def answer(self) -> Answered:
        """The next answer."""
        head = (await self._reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        lines = (line.partition(": ") for line in head[1:-2])
        headers = {name.lower(): value for name, _, value in lines}
        length = int(headers.get("content-length", "0"))
        return Answered(int(head[0].split()[1]), headers, await self._reader.readexactly(length))

    async def rest(self) -> bytes:
        """Everything up to the end of the connection."""
        return await self._reader.read()

    async def frame(self) -> tuple[int, bytes]:
        """The next frame of the server: opcode and payload."""
        first, length = await self._reader.readexactly(2)
        if length == 126:
            (length,) = struct.unpack("!H", await self._reader.readexactly(2))
        elif length == 127:
            (length,) = struct.unpack("!Q", await self._reader.readexactly(8))
        return first & 0xF, await self._reader.readexactly(length)

    async def closed(self) -> int:
        """The code of the close frame, which there must be."""
        while True:
            opcode, payload = await self.frame()
            if opcode == CLOSE:
                code: int = struct.unpack("!H", payload[:2])[0]
                return code


def frame(
    opcode: int,
    payload: bytes = b"",
    *,
    is_last: bool = True,
    reserved: int = 0,
    mask: bytes = MASK,
    length: int | None = None,
) -> bytes:
    """A frame; `mask` may be empty, and `length` may lie."""
    size = len(payload) if length is None else length
    first, bit = is_last << 7 | reserved << 4 | opcode, 0x80 if mask else 0
    if size <= 125:
        head = struct.pack("!BB", first, bit | size)
    elif size < 1 << 16:
        head = struct.pack("!BBH", first, bit | 126, size)
    else:
        head = struct.pack("!BBQ", first, bit | 127, size)
    body = bytes(byte ^ mask[at % 4] for at, byte in enumerate(payload)) if mask else payload
    return head + mask + body


def upgrade(path: str, *more: Line, method: bytes = b"GET", **changed: bytes | None) -> bytes:
    """A handshake; a header named in `changed` has another value, or is left out."""
    lines: dict[str, bytes | None] = {
        "Host": b"turngate.test",
        "Upgrade": b"websocket",
        "Connection": b"Upgrade",
        "Sec_WebSocket_Key": KEY,
        "Sec_WebSocket_Version": b"13",
    }
    headers = [
        (name.replace("_", "-").encode(), value) for name, value in (lines | changed).items()
    ]
    written = [name + b": " + value for name, value in (*headers, *more) if value is not None]
    return b"\r\n".join((method + b" " + path.encode() + b" HTTP/1.1", *written, b"", b""))
