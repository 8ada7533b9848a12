"""Whether a run resumes as fast in a long conversation as in a short one."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING

from app.log.envelope import NewEvent
from app.log.runs import TextDelta
from app.service.clock import SystemClock
from app.store.open import Store
from bench.decisions import AGENT
from bench.report import Measure
from bench.servers import TENANT
from bench.wire import Stream
from tests.support.log.seals import SEAL

if TYPE_CHECKING:
    from bench.decisions import Desk
    from bench.report import Report

LENGTHS = (100, 10_000, 100_000)
SAMPLES = 15
CHUNK = 1000
TEXT = "a few words of a sentence that somebody reads as it comes, " * 3


async def measure(report: Report, desk: Desk, dsn: str) -> str:
    """Add what a resume takes at each length; the id of the longest conversation."""
    shortest, conversation = 0.0, ""
    for length in LENGTHS:
        conversation = await _conversation(desk, dsn, length)
        spent = [await desk.decided_ms(conversation) for _ in range(SAMPLES)]
        shortest = shortest or median(spent)
        report.add(
            Measure(
                f"resume, {length:,} events before it",
                "ms",
                median(spent),
                shortest,
                f"with {LENGTHS[0]} events before it",
                "flat within 20 %",
            )
        )
    return conversation


async def _conversation(desk: Desk, dsn: str, length: int) -> str:
    """A conversation whose log is that long: one finished run that said very much."""
    body = {"agent": AGENT, "input": "say hello"}
    run = await desk.http.call("POST", "/v1/runs", body)
    stream = await Stream.open(desk.address, f"/v1/runs/{run['id']}/stream")
    await stream.until(b'"type":"end"')
    await stream.close()
    conversation: str = run["conversation_id"]
    said = NewEvent(TextDelta(text=TEXT), run_id=run["id"])
    clock = SystemClock()
    async with Store.open(dsn, seal=SEAL, process="bench-fill") as store:
        for start in range(0, length, CHUNK):
            async with store.database.transaction(TENANT) as tx:
                await tx.lock(conversation)
                chunk = [said] * min(CHUNK, length - start)
                await tx.append(conversation, chunk, now=clock.now())
    return conversation
