"""An agent `boss` with workers, for the tests of delegations that run on the real store."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from app.log.envelope import Event
    from app.log.records import RunRecord
    from tests.support.service.house import House

RESULTS = {"tool.completed", "tool.failed", "tool.settled"}


def delegate(target: str, task: str = "go", **more: Any) -> str:
    """A line of a script that delegates."""
    args = {"target_agent_id": target, "task": task, **more}
    return f"call __delegate_to {json.dumps(args)}"


async def staffed(house: House, *workers: str, script: str, **members: Any) -> None:
    """Save `boss`, and under these names agents that play the script, whatever their task."""
    boss = {name: members.pop(name) for name in list(members) if name.startswith("delegate_")}
    for name in workers:
        await house.agent(name, instructions=f"#script\n{script}", **members)
    await house.agent("boss", tools=[], delegates=[{"agent": name} for name in workers], **boss)


def worker_of(event: Event) -> str | None:
    """The delegation whose worker the event is of."""
    worker = event.data.get("worker")
    return worker["call_id"] if isinstance(worker, dict) else None


async def is_paired(house: House, run: RunRecord) -> bool:
    """Whether every emitted call, of the run and of its workers, has exactly one result."""
    events = await house.events(run)
    emitted = [
        part["call_id"]
        for event in events
        if event.type == "message.assistant"
        for part in event.data["content"]
        if part["type"] == "tool_call"
    ]
    answered = [event.data["call_id"] for event in events if event.type in RESULTS]
    return sorted(emitted) == sorted(answered)
