"""A wire to a server on a loopback that a test may cut, and mend."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.support.clock import settle

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable


@dataclass
class Wire:
    """Passes bytes on to `upstream`, a port, as long as it is not cut."""

    upstream: int
    port: int = 0
    is_cut: bool = False
    ends: set[asyncio.StreamWriter] = field(default_factory=set)
    back: bytearray = field(default_factory=bytearray)
    came_back: asyncio.Event = field(default_factory=asyncio.Event)

    async def has_brought(self, text: bytes, times: int) -> None:
        """Returns once the upstream has sent the text so often, and the client has read it."""
        while self.back.count(text) < times:
            self.came_back.clear()
            await self.came_back.wait()
        await settle()

    def hear(self, data: bytes) -> None:
        """Take note of what the upstream sends."""
        self.back += data
        self.came_back.set()

    def cut(self) -> None:
        """Drop every connection, and take none."""
        self.is_cut = True
        for end in self.ends:
            end.transport.abort()

    def mend(self) -> None:
        """Take connections again."""
        self.is_cut = False

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.is_cut:
            writer.transport.abort()
            return
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self.upstream)
        self.ends |= {writer, far_writer}
        try:
            async with asyncio.TaskGroup() as both:
                both.create_task(_pass_on(reader, far_writer, lambda _: None))
                both.create_task(_pass_on(far_reader, writer, self.hear))
        finally:
            self.ends -= {writer, far_writer}


@asynccontextmanager
async def wire_to(port: int) -> AsyncIterator[Wire]:
    """A wire to a port, for the length of the block."""
    wire = Wire(port)
    server = await asyncio.start_server(wire.serve, "127.0.0.1", 0)
    wire.port = server.sockets[0].getsockname()[1]
    try:
        yield wire
    finally:
        wire.cut()
        server.close()
        await server.wait_closed()


async def _pass_on(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, hear: Callable[[bytes], None]
) -> None:
    with suppress(ConnectionError):
        while data := await reader.read(65536):
            writer.write(data)
            hear(data)
            await writer.drain()
    writer.close()
