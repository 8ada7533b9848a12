"""Events a second on one socket that catches up with a long log."""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING

from bench.report import Measure
from bench.servers import bare
from bench.wire import Stream

if TYPE_CHECKING:
    from pathlib import Path

    from bench.report import Report
    from bench.servers import Server
    from bench.wire import Address

SAMPLE = 200
_EVENT, _LIVE = b'"type":"event"', b'{"type":"live"}'


async def measure(report: Report, ours: Server, conversation_id: str, scratch: Path) -> None:
    """Add the rate of a replay, beside a bare socket that sends such frames from memory."""
    path = f"/v1/conversations/{conversation_id}/stream"
    sample, count, rate = await _replayed(ours.address, path)
    file = scratch / "frames.jsonl"
    file.write_bytes(b"\n".join(sample))
    async with bare(file) as server:
        _, _, base = await _replayed(server.address, f"/repeat/{count}")
    against = "such frames from memory, a bare uvicorn"
    report.add(Measure(f"events streamed, {count:,} of a log", "events/s", rate, base, against))


async def _replayed(address: Address, path: str) -> tuple[list[bytes], int, float]:
    """Some frames, how many there were, and how many a second."""
    stream = await Stream.open(address, path)
    sample: list[bytes] = []
    count, start = 0, perf_counter()
    async for frame in stream.frames():
        if _EVENT in frame:
            count += 1
            if len(sample) < SAMPLE:
                sample.append(frame)
        elif frame.startswith(_LIVE):
            break
    rate = count / (perf_counter() - start)
    await stream.close()
    return sample, count, rate
