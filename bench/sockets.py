"""What an idle socket costs in memory."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from bench.report import Measure
from bench.wire import Stream

if TYPE_CHECKING:
    from bench.report import Report
    from bench.servers import Server

SOCKETS = 500
AT_ONCE = 50
_LIVE = b'"type":"live"'


async def measure(report: Report, ours: Server, bare: Server, conversation_id: str) -> None:
    """Add the memory of a subscribed socket on which nothing happens."""
    path = f"/v1/conversations/{conversation_id}/stream"
    mine = await _kib_each(ours, path)
    base = await _kib_each(bare, "/idle")
    report.add(Measure("memory of an idle socket", "KiB", mine, base, "a bare uvicorn's"))


async def _kib_each(server: Server, path: str) -> float:
    # The first sockets also pay for what all of them share.
    kept = await _opened(server, path, AT_ONCE)
    before = server.resident_bytes()
    for _ in range(SOCKETS // AT_ONCE):
        kept += await _opened(server, path, AT_ONCE)
    grown = server.resident_bytes() - before
    await asyncio.gather(*(stream.close() for stream in kept))
    return grown / 1024 / SOCKETS


async def _opened(server: Server, path: str, count: int) -> list[Stream]:
    streams = [await Stream.open(server.address, path) for _ in range(count)]
    for stream in streams:
        await stream.until(_LIVE)
    return streams
