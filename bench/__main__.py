"""`make bench`: every measure, in a minute or two. `--write` puts them into the document."""

from __future__ import annotations

import os
import platform
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import uvloop

from app.store.server.whereabouts import running_database
from bench import appends, context, decisions, engine, resumes, runs, sockets, streaming
from bench.report import Report
from bench.servers import bare, turngate
from bench.wire import Http

DOCUMENT = Path(__file__).parents[1] / "docs" / "benchmarks.md"


async def measured(scratch: Path) -> Report:
    """Take every measure; the quiet ones first."""
    report = Report()
    await engine.measure(report)
    async with turngate(scratch) as ours:
        http = await Http.connect(ours.address)
        await runs.prepare(http)
        await http.close()
        frames = scratch / "run.jsonl"
        frames.write_bytes(b"\n".join(await runs.record(ours.address)))
        async with bare(frames) as base:
            desk = await decisions.Desk.open(ours.address)
            await decisions.measure(report, desk, base)
            await runs.measure(report, ours, base)
            await context.measure(report, ours.address)
            async with running_database(None, data_dir=scratch) as dsn:
                conversation = await resumes.measure(report, desk, dsn)
                await streaming.measure(report, ours, conversation, scratch)
                quiet = (await desk.http.call("POST", "/v1/conversations", {}))["id"]
                await sockets.measure(report, ours, base, quiet)
                await appends.measure(report, dsn)
    return report


def machine() -> str:
    """What the numbers are taken on, and how busy it is with other things."""
    cores, load = len(os.sched_getaffinity(0)), os.getloadavg()[0]
    python = platform.python_version()
    shared = f"{cores} cores shared by client, server and Postgres; Python {python}"
    return f"{shared}; load average {load:.1f} before the first measure."


def measure(*, write: bool) -> None:
    """Measure and show; with `write`, put it into the document as well."""
    taken_on = machine()
    with TemporaryDirectory(prefix="turngate-bench-") as folder:
        report = uvloop.run(measured(Path(folder)))
    report.show()
    print(taken_on)
    if write:
        report.write(DOCUMENT, taken_on)


if __name__ == "__main__":
    measure(write="--write" in sys.argv)
