"""A run cancelled at any moment: every call settled once, and a conversation that goes on (F56)."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest

from tests.support.log.killed import DeadlyLeases
from tests.support.played.recorded_script import is_paired
from tests.support.service.house import House

if TYPE_CHECKING:
    from app.log.records import RunRecord
    from tests.support.log.killed import Moment

pytestmark = [pytest.mark.postgres, pytest.mark.fault]

JOB = "say let me see\ncall charge {}\ncall mutate {}\n---\nsay done"
FREE = "say let me see\ncall charge {}\ncall read {}\n---\nsay done"
RESULTS = {"tool.completed", "tool.failed", "tool.settled"}


async def is_sound(house: House, run: RunRecord) -> None:
    """Each emitted call has one result, and the run's last word is that it was cancelled."""
    events = await house.events(run)
    calls = [
        part["call_id"]
        for event in events
        if event.type == "message.assistant"
        for part in event.data["content"]
        if part["type"] == "tool_call"
    ]
    results = Counter(event.data["call_id"] for event in events if event.type in RESULTS)
    assert results == Counter(calls)
    assert events[-1].type == "run.cancelled"
    assert await house.pending(run) == []


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize(
    ("program", "event"),
    [
        (JOB, "run.started"),
        (JOB, "step.started"),
        (JOB, "message.assistant"),
        (JOB, "run.paused"),
        (FREE, "message.assistant"),
        (FREE, "tool.started"),
        (FREE, "tool.completed"),
        (FREE, "step.completed"),
        (FREE, "run.completed"),
    ],
)
async def test_f56_a_cancel_at_any_point_leaves_everything_settled(
    house: House, program: str, event: str, moment: Moment
) -> None:
    alice = await house.person()
    await house.agent()
    run = await alice.run(program)
    await cancelled_at(house, run, event, moment)
    run = await house.read(run)
    if (event, moment) == ("run.completed", "after"):
        assert run.status == "completed"
    else:
        assert run.status == "cancelled"
        await is_sound(house, run)
    later = await alice.run("say more", conversation_id=run.conversation_id)
    assert (await house.drive(later)).status == "completed"
    assert is_paired(house.script.requests[-1].messages)


async def cancelled_at(house: House, run: RunRecord, event: str, moment: Moment) -> None:
    """Drive the run, and cancel it there."""
    alice = await house.person()

    async def cancel() -> None:
        if not (await house.read(run)).is_ended:
            await alice.cancel(run)

    leases = DeadlyLeases(house.store.leases, event, moment, die=cancel)
    meddled = House(house.store, house.tenant, house.clock, house.tools, leases=leases)
    await meddled.drive(run)
