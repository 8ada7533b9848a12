"""A wire to a server that spoils WebSockets on their way to the client, frame by frame.

HTTP passes untouched. Frames from a server are not masked, and ours are not compressed, so they
can be read on the way.
"""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

_TEXT = 0x81


@dataclass(frozen=True, slots=True)
class Passing:
    """A frame on its way: its bytes, what it says, and the number of its socket, from 1."""

    raw: bytes
    said: dict[str, Any]
    socket: int

    @property
    def is_event(self) -> bool:
        return self.said.get("type") == "event"


class Cut(Exception):
    """The wire breaks here."""


Spoil: TypeAlias = "Callable[[Passing], Awaitable[list[bytes]]]"


@dataclass
class TamperedWire:
    """Passes bytes on to `upstream`, a port; what `spoil` makes of a frame takes its place."""

    upstream: int
    spoil: Spoil
    port: int = 0
    sockets: int = 0
    cuts: int = 0
    asked: list[str] = field(default_factory=list)
    """The request lines of what was sent over it."""
    ends: set[asyncio.StreamWriter] = field(default_factory=set)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self.upstream)
        self.ends |= {writer, far_writer}
        try:
            async with asyncio.TaskGroup() as both:
                both.create_task(self._up(reader, far_writer))
                both.create_task(self._down(far_reader, writer))
        except* Cut:
            self.cuts += 1
        finally:
            self.abort(writer, far_writer)

    def abort(self, *ends: asyncio.StreamWriter) -> None:
        """Break connections off, without a word."""
        for end in ends:
            end.transport.abort()
            self.ends.discard(end)

    async def _up(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            while data := await reader.read(65536):
                if b" HTTP/1.1\r\n" in data:
                    self.asked.append(data.partition(b"\r\n")[0].decode())
                writer.write(data)
                await writer.drain()
        writer.close()

    async def _down(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            head = await reader.readuntil(b"\r\n\r\n")
            writer.write(head)
            if head.startswith(b"HTTP/1.1 101"):
                self.sockets += 1
                await self._frames(reader, writer, self.sockets)
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
        writer.close()

    async def _frames(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, socket: int
    ) -> None:
        while True:
            raw, text = await _frame(reader)
            said = json.loads(text) if raw[0] == _TEXT else {}
            for piece in await self.spoil(Passing(raw, said, socket)):
                writer.write(piece)
            await writer.drain()


async def unspoilt(frame: Passing) -> list[bytes]:
    """What passes everything on."""
    return [frame.raw]


@asynccontextmanager
async def tampered_wire(upstream: int, spoil: Spoil) -> AsyncIterator[TamperedWire]:
    """A wire to a port, for the length of the block."""
    wire = TamperedWire(upstream, spoil)
    server = await asyncio.start_server(wire.serve, "127.0.0.1", 0)
    wire.port = server.sockets[0].getsockname()[1]
    try:
        yield wire
    finally:
        wire.abort(*wire.ends)
        server.close()
        await server.wait_closed()


async def _frame(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    """A whole unmasked frame, and its payload."""
    head = await reader.readexactly(2)
    size = head[1] & 0x7F
    longer = {126: 2, 127: 8}.get(size, 0)
    more = await reader.readexactly(longer)
    payload = await reader.readexactly(int.from_bytes(more, "big") if longer else size)
    return head + more + payload, payload
