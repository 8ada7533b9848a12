"""Workers whose process dies, is drained or is cancelled: nothing with an effect happens twice."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from tests.service.deaths import doomed, killed, other
from tests.service.driving.delegating import delegate, is_paired, staffed, worker_of

if TYPE_CHECKING:
    from tests.support.log.killed import Moment
    from tests.support.service.house import House

pytestmark = [pytest.mark.postgres, pytest.mark.fault]

ALL = f"{delegate('w')}\n---\nsay ok"


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize(
    "event_type",
    [
        *("delegate.started", "step.started", "message.assistant", "tool.started"),
        *("tool.completed", "step.completed", "delegate.completed", "run.completed"),
    ],
)
async def test_wherever_a_process_dies_the_worker_comes_to_the_same_end(
    house: House, event_type: str, moment: Moment
) -> None:
    script = "say hm\ncall read {}\ncall stamp {}\n---\nsay 42"
    await staffed(house, "w", script=script, approval={"stamp": "allow"})
    alice = await house.person()
    run = await alice.run(ALL, agent="boss")
    nth = 2 if event_type in {"step.started", "message.assistant"} else 1
    await killed(doomed(house, event_type, moment, nth), run)
    ended = await other(house).drive(run)
    assert (ended.status, ended.answer and ended.answer["answer"]) == ("completed", "ok")
    assert len({call.idempotency_key for call in house.tools.calls if call.name == "stamp"}) == 1
    assert len(await house.data(run, "delegate.started")) == 1
    assert len(await house.data(run, "delegate.completed")) == 1
    assert await is_paired(house, run)


async def test_an_effect_under_way_in_a_worker_is_asked_about_before_it_is_repeated(
    house: House,
) -> None:
    """T136, within a worker."""
    await staffed(house, "w", script="call charge {}\n---\nsay charged")
    alice = await house.person()
    run = await alice.run(ALL, agent="boss")
    await killed(doomed(house, "tool.completed", "before"), run)
    assert house.tools.count("charge") == 1
    second = other(house)
    assert (await second.drive(run)).status == "paused"
    (asked,) = await house.pending(run)
    assert asked.card["risk"]["outcome_unknown"] is True
    assert asked.card["worker"] == {"call_id": "call_1_1_0", "agent": "w"}
    assert house.tools.count("charge") == 1
    await alice.approve(asked)
    assert (await second.drive(run)).status == "completed"
    keys = {call.idempotency_key for call in house.tools.calls}
    assert (house.tools.count("charge"), len(keys)) == (2, 1)
    assert await is_paired(house, run)


async def test_an_approved_effect_of_a_worker_runs_once_whatever_dies(house: House) -> None:
    """T54, within a worker."""
    await staffed(house, "w", script="call mutate {}\n---\nsay done")
    alice = await house.person()
    run = await alice.run(ALL, agent="boss")
    await house.drive(run)
    await alice.approve((await house.pending(run))[0])
    await killed(doomed(house, "tool.started", "before"), run)
    assert (await other(house).drive(run)).status == "completed"
    assert house.tools.count() == 1
    assert await is_paired(house, run)


async def test_cancelling_closes_the_calls_of_workers(house: House) -> None:
    await staffed(house, "w", script="call charge {}\ncall nope {}\n---\nsay done")
    house.tools.hold("charge")
    alice = await house.person()
    run = await alice.run(ALL, agent="boss")
    lease = await house.claim(run)
    driving = asyncio.ensure_future(house.driver.drive(lease))
    await house.tools.began.wait()
    cancelled = await alice.cancel(run)
    assert cancelled.status == "cancelled"
    driving.cancel()
    await asyncio.gather(driving, return_exceptions=True)
    settled = await house.data(run, "tool.settled")
    ends = [(one["call_id"], one["outcome"], "worker" in one) for one in settled]
    assert ends == [
        ("call_1_1_0/call_1_1_0", "interrupted", True),
        ("call_1_1_0/call_1_1_1", "cancelled", True),
        ("call_1_1_0", "interrupted", False),
    ]
    assert await is_paired(house, run)
    again = await alice.run("say hi", agent="boss", conversation_id=run.conversation_id)
    assert (await house.drive(again)).status == "completed"


async def test_cancelling_a_pause_ends_the_requests_of_workers(house: House) -> None:
    await staffed(house, "w", script="call mutate {}\n---\nsay done")
    alice = await house.person()
    run = await alice.run(ALL, agent="boss")
    await house.drive(run)
    await alice.cancel(run)
    assert [asked.status for asked in await house.asked(run)] == ["cancelled"]
    assert await is_paired(house, run)


async def test_a_drained_process_hands_workers_over_between_their_steps(house: House) -> None:
    await staffed(house, "w", script="call charge {}\n---\nsay done")
    held = house.tools.hold("charge")
    alice = await house.person()
    run = await alice.run(ALL, agent="boss")
    lease = await house.claim(run)
    driving = asyncio.ensure_future(house.driver.drive(lease))
    await house.tools.began.wait()
    house.driver.drain()
    held.set()
    await driving
    assert (await house.read(run)).status == "running"
    ended = await other(house).drive(run)
    assert (ended.status, house.tools.count("charge")) == ("completed", 1)
    steps = [event for event in await house.events(run) if event.type == "step.started"]
    assert [worker_of(event) for event in steps] == [None, "call_1_1_0", "call_1_1_0", None]
    assert await is_paired(house, run)


async def test_a_worker_at_its_cap_takes_no_further_step_in_another_process(house: House) -> None:
    """Its last event is in the log and the delegation's result is not: nothing more may run."""
    script = 'say hm\ncall charge {"n":1}\n---\nsay more\ncall charge {"n":2}\n---\nsay done'
    await staffed(house, "w", script=script, max_steps=1)
    run = await (await house.person()).run(ALL, agent="boss")
    await killed(doomed(house, "delegate.completed", "before"), run)
    assert (await other(house).drive(run)).status == "completed"
    assert house.tools.args("charge") == ['{"n":1}']
    results = await house.data(run, "tool.completed")
    assert [one["result"] for one in results if one["tool"] == "__delegate_to"] == ["hm"]


async def test_a_worker_closed_without_a_word_has_failed_whoever_notices(house: House) -> None:
    script = "call charge {}\n---\ncall charge {}\n---\nsay done"
    await staffed(house, "w", script=script, max_steps=1)
    run = await (await house.person()).run(ALL, agent="boss")
    await killed(doomed(house, "delegate.completed", "before"), run)
    assert (await other(house).drive(run)).status == "completed"
    (ended,) = await house.data(run, "delegate.completed")
    assert (ended["succeeded"], ended["error"]) == (False, "no_path")
    assert house.tools.count("charge") == 1
