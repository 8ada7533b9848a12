"""Runs of 200 tokens: until their first event, until their end, and how many a second."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING

from bench.report import Measure, p50_p95
from bench.wire import Address, BenchFailed, Http, Stream

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.report import Report
    from bench.servers import Server

AGENT = "talker"
TOKENS = 200
WORD = b"kettle"
INPUT = f"tokens {TOKENS} {WORD.decode()}"
# How many runs are in flight, and how many there are in all.
LOADS = ((1, 100), (16, 400), (64, 800))
WARM_UP = (8, 40)
_DELTA, _EVENT, _END = b'"type":"text.delta"', b'"type":"event"', b'"type":"end"'


@dataclass(frozen=True, slots=True)
class Timing:
    """Milliseconds of one run."""

    first_event: float
    whole: float


async def prepare(http: Http) -> None:
    """Save the agent."""
    await http.call("PUT", f"/v1/agents/{AGENT}", {"model": "script"})


async def record(address: Address) -> list[bytes]:
    """The frames of one run, as a baseline plays them."""
    http = await Http.connect(address)
    run = await http.call("POST", "/v1/runs", {"agent": AGENT, "input": INPUT})
    stream = await Stream.open(address, f"/v1/runs/{run['id']}/stream")
    frames = [frame async for frame in stream.frames()]
    await http.close()
    return frames


async def measure(report: Report, ours: Server, bare: Server) -> None:
    """Add the numbers of each load."""
    for server in (ours, bare):
        await _load(server.address, *WARM_UP)
    for inflight, count in LOADS:
        mine, my_rate = await _load(ours.address, inflight, count)
        base, base_rate = await _load(bare.address, inflight, count)
        if inflight == 1:
            firsts = ([each.first_event for each in timings] for timings in (mine, base))
            report.add(*_latency("create -> first event", *firsts, target="p50 <= 10 ms"))
        wholes = ([each.whole for each in timings] for timings in (mine, base))
        report.add(*_latency(f"run of {TOKENS} tokens, {inflight} at once", *wholes, target=""))
        report.add(
            Measure(
                f"runs of {TOKENS} tokens, {inflight} at once",
                "runs/s",
                my_rate,
                base_rate,
                "the same frames from a bare uvicorn",
                ">= 100 runs/s" if inflight == 64 else "",
            )
        )


def _latency(
    name: str, ours: Sequence[float], base: Sequence[float], *, target: str
) -> list[Measure]:
    against = "the same frames from a bare uvicorn"
    pairs = zip(("p50", "p95"), p50_p95(ours), p50_p95(base), (target, ""), strict=True)
    return [
        Measure(f"{name}, {which}", "ms", value, baseline, against, bound)
        for which, value, baseline, bound in pairs
    ]


async def _load(address: Address, inflight: int, count: int) -> tuple[list[Timing], float]:
    """The timings of `count` runs, and how many a second there were."""
    left = iter(range(count))
    timings: list[Timing] = []

    async def client() -> None:
        http = await Http.connect(address)
        timings.extend([await _run(address, http) for _ in left])
        await http.close()

    start = perf_counter()
    async with asyncio.TaskGroup() as group:
        for _ in range(inflight):
            group.create_task(client())
    return timings, count / (perf_counter() - start)


async def _run(address: Address, http: Http) -> Timing:
    """One run on a connection and a socket of its own, every token counted."""
    start = perf_counter()
    run = await http.call("POST", "/v1/runs", {"agent": AGENT, "input": INPUT})
    stream = await Stream.open(address, f"/v1/runs/{run['id']}/stream")
    first, words, ended = 0.0, 0, False
    async for frame in stream.frames():
        if not first and _EVENT in frame:
            first = perf_counter()
        if _DELTA in frame:
            words += frame.count(WORD)
        ended = ended or _END in frame
    end = perf_counter()
    await stream.close()
    if words != TOKENS or not ended:
        raise BenchFailed(f"{run['id']}: {words} tokens, ended {ended}")
    return Timing(1000 * (first - start), 1000 * (end - start))
