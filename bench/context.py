"""What the context of a run costs: a remembered conversation, skills and attachments, or nothing.

Taken from the request that creates the run to the first step's beginning, which follows the context
at once. The two kinds of run take turns, so that both meet the same load.
"""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING, Any

from bench.report import Measure, p50_p95
from bench.wire import BenchFailed, Http, Stream

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bench.report import Report
    from bench.wire import Address

TURNS, SKILLS, FILES = 50, 30, 10
SAMPLES = 20
FULL, PLAIN = "archivist", "newcomer"
# Every run is remembered, so the last sample has so many turns more than the first.
AGENTS: dict[str, dict[str, Any]] = {
    FULL: {
        "model": "script",
        "memory": {"strategy": "truncation", "retrieval": "semantic"},
        "skills": {"directory": True, "max_entries": SKILLS},
    },
    PLAIN: {"model": "script"},
}
SAID = "say the harbour was calm on day {} and the ferry left at noon"
SKILL = {
    "trigger": "somebody asks for a report",
    "steps": ["read what there is", "write it down", "ask whether it is right"],
    "origin": "pack",
    "scope": "tenant",
    "description": "How a report is written. " * 8,
}
FILE = "a line of a table that somebody has exported " * 90


async def measure(report: Report, address: Address) -> None:
    """Add what a run with all of it takes until its first step, beside one without any."""
    http = await Http.connect(address)
    for name, agent in AGENTS.items():
        await http.call("PUT", f"/v1/agents/{name}", agent)
    for n in range(SKILLS):
        await http.call("PUT", f"/v1/skills/report-{n}", SKILL)
    conversation: str = (await http.call("POST", "/v1/conversations", {}))["id"]
    for n in range(TURNS):
        await _run(http, address, _request(FULL, n, conversation_id=conversation))
    files = [
        await http.call("POST", f"/v1/artifacts?conversation_id={conversation}", {str(n): FILE})
        for n in range(FILES)
    ]
    attached = [{"artifact_id": file["id"], "disposition": "ref"} for file in files]
    more = {"conversation_id": conversation, "attachments": attached}
    full, plain = [], []
    for n in range(SAMPLES):
        plain.append(await _run(http, address, _request(PLAIN, n)))
        full.append(await _run(http, address, _request(FULL, TURNS + n, **more)))
    await http.close()
    what = f"{TURNS} turns, {SKILLS} skills, {FILES} files -> first step"
    pairs = zip(("p50", "p95"), p50_p95(full), p50_p95(plain), ("<= 50 ms more", ""), strict=True)
    for which, mine, base, target in pairs:
        report.add(Measure(f"{what}, {which}", "ms", mine, base, "a run without them", target))


def _request(agent: str, n: int, **more: object) -> dict[str, object]:
    return {"agent": agent, "input": SAID.format(n), **more}


async def _run(http: Http, address: Address, request: Mapping[str, Any]) -> float:
    """The milliseconds to the first step of a run, which is seen to its end."""
    start = perf_counter()
    run = await http.call("POST", "/v1/runs", request)
    stream = await Stream.open(address, f"/v1/runs/{run['id']}/stream")
    await stream.until(b'"step.started"')
    spent = 1000 * (perf_counter() - start)
    if b'"run.completed"' not in await stream.until(b'"run.'):
        raise BenchFailed(f"{run['id']} did not complete")
    await stream.until(b'"type":"end"')
    await stream.close()
    return spent
