"""Workers that die, lose their lease, or give up: what another finds, and what never happens."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from app.errors import LeaseLost, StoreUnavailable
from app.log.envelope import NewEvent
from app.log.runs import TextDelta
from tests.support.clock import settle
from tests.support.house import House
from tests.support.killed import DeadlyLeases, Killed, Moment
from tests.support.recorded_script import is_paired

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from app.log.records import RunRecord

pytestmark = [pytest.mark.postgres, pytest.mark.fault]

JOB = 'call mutate {"to":"a"}\n---\nsay sent'


def other(house: House, worker: str = "worker-2") -> House:
    """Another process on the same database, with the same tools."""
    return House(house.store, house.tenant, house.clock, house.tools, worker=worker)


def doomed(house: House, event_type: str, moment: Moment, nth: int = 1) -> House:
    """A process that dies there."""
    leases = DeadlyLeases(house.store.leases, event_type, moment, nth)
    return House(house.store, house.tenant, house.clock, house.tools, leases=leases)


async def killed(house: House, run: RunRecord) -> None:
    """Drive until the process dies, and let its lease run out."""
    with pytest.raises(Killed):
        await house.drive(run)
    await house.free(run)


@dataclass(frozen=True)
class DeathCase:
    event_type: str
    moment: Moment
    nth: int = 1

    @property
    def name(self) -> str:
        return f"{self.moment}-{self.event_type}-{self.nth}"


def deaths(*types: str, nth: int = 1) -> list[DeathCase]:
    return [DeathCase(kind, moment, nth) for kind in types for moment in ("before", "after")]


FREE_JOB = 'think hm\nsay let me see\ncall read {}\ncall stamp {"n":1}\n---\nsay all done'
FREE_DEATHS = [
    *deaths("run.started", "step.started", "message.assistant", "tool.started", "tool.completed"),
    *deaths("step.completed", "step.started", "message.assistant", "text.delta", nth=2),
    *deaths("run.completed"),
]


async def story(house: House, run: RunRecord) -> list[tuple[str, str]]:
    """What a log tells beyond how often it was tried: calls, results, the texts of replies."""
    told: list[tuple[str, str]] = []
    for event in await house.events(run):
        data = event.data
        match event.type:
            case "message.assistant":
                told += [(event.type, str(part)) for part in data["content"]]
            case "tool.completed" | "tool.failed" | "tool.settled":
                told.append((event.type, f"{data['call_id']} {data.get('result')}"))
            case "run.completed":
                told.append((event.type, f"{data['answer']} {data['steps']}"))
            case "run.paused" | "run.failed":
                told.append((event.type, ""))
            case _:
                pass
    return told


@pytest.mark.parametrize("death", FREE_DEATHS, ids=lambda death: death.name)
async def test_a_run_that_lost_its_worker_ends_as_if_nothing_had_happened(
    house: House, death: DeathCase
) -> None:
    alice = await house.person()
    await house.agent(approval={"stamp": "allow"})
    twin = await house.drive(await alice.run(FREE_JOB))
    run = await alice.run(FREE_JOB)
    await killed(doomed(house, death.event_type, death.moment, death.nth), run)
    run = await other(house).drive(run)
    assert run.status == "completed"
    assert await story(house, run) == await story(house, twin)
    assert run.usage == twin.usage
    assert all(is_paired(request.messages) for request in house.script.requests)


async def test_f18_a_decision_survives_the_worker_that_was_to_carry_it_out(house: House) -> None:
    """T54: the decision is durable, the call runs once, and the answer can be given again."""
    alice = await house.person()
    await house.agent()
    run = await house.drive(await alice.run(JOB))
    (asked,) = await house.pending(run)
    jws = alice.sign(await alice.payload(asked.id, decision="approve"))
    await alice.post(asked.id, "approve", jws)
    await killed(doomed(house, "run.resumed", "before"), run)
    assert house.tools.count() == 0
    run = await other(house).drive(run)
    assert run.status == "completed"
    assert house.tools.count() == 1
    assert (await alice.post(asked.id, "approve", jws)).persisted is False


async def test_f5_what_was_approved_runs_whatever_the_model_would_say_by_now(
    house: House,
) -> None:
    alice = await house.person()
    await house.agent()
    run = await house.drive(await alice.run('call mutate {"to":"a"}\n---\nsay done'))
    await alice.approve((await house.pending(run))[0])
    await killed(doomed(house, "tool.started", "before"), run)
    again = other(house)
    again.script.program = 'call mutate {"to":"b"}\n---\nsay done'
    assert (await again.drive(run)).status == "completed"
    assert house.tools.args() == ['{"to":"a"}']
    assert [request.replies for request in again.script.requests] == [1]


async def test_t136_a_started_call_with_an_effect_is_never_run_again_silently(
    house: House,
) -> None:
    """I15: the outcome is unknown, a person is asked, and the key stays the same."""
    alice = await house.person()
    await house.agent()
    run = await house.drive(await alice.run(JOB))
    await alice.approve((await house.pending(run))[0])
    await killed(doomed(house, "tool.started", "after"), run)
    run = await other(house).drive(run)
    assert run.status == "paused"
    assert house.tools.count() == 0
    (anew,) = await house.pending(run)
    assert anew.card["risk"]["outcome_unknown"] is True
    assert "outcome is unknown" in anew.card["reason"]
    await alice.approve(anew)
    run = await house.drive(run)
    assert run.status == "completed"
    starts = await house.data(run, "tool.started")
    assert [(one["attempt"], one["idempotency_key"]) for one in starts] == [
        (1, f"{run.id}:call_1_1_0"),
        (2, f"{run.id}:call_1_1_0"),
    ]
    assert run.answer is not None
    assert run.answer["tool_calls_seen"] == 1


async def test_t136_a_denied_re_run_never_claims_that_the_call_did_not_run(house: House) -> None:
    alice = await house.person()
    await house.agent()
    run = await house.drive(await alice.run(JOB))
    await alice.approve((await house.pending(run))[0])
    await killed(doomed(house, "tool.started", "after"), run)
    run = await other(house).drive(run)
    await alice.deny((await house.pending(run))[0])
    run = await house.drive(run)
    assert run.status == "completed"
    assert [one["outcome"] for one in await house.data(run, "tool.settled")] == ["outcome_unknown"]
    assert house.tools.count() == 0


async def test_t135_an_idempotent_call_is_run_again_with_its_key(house: House) -> None:
    alice = await house.person()
    await house.agent()
    run = await house.drive(await alice.run("call stamp {}\n---\nsay done"))
    await alice.approve((await house.pending(run))[0])
    await killed(doomed(house, "tool.completed", "before"), run)
    assert house.tools.count("stamp") == 1
    run = await other(house).drive(run)
    assert run.status == "completed"
    keys = [call.idempotency_key for call in house.tools.calls]
    assert keys == [f"{run.id}:call_1_1_0"] * 2


async def test_t137_unattended_an_unknown_outcome_is_told_and_not_repeated(house: House) -> None:
    await house.agent()
    alice = await house.person(scopes={"runs:write", "triggers:write"})
    run = await alice.run("call charge {}\n---\nsay done", unattended=True)
    await killed(doomed(house, "tool.started", "after"), run)
    run = await other(house).drive(run)
    assert run.status == "completed"
    assert house.tools.count("charge") == 0
    assert [one["outcome"] for one in await house.data(run, "tool.settled")] == ["outcome_unknown"]


async def test_a_cut_attempt_is_taken_back_before_it_is_made_again(house: House) -> None:
    alice = await house.person()
    await house.agent()
    run = await alice.run("tokens 600 word\n---\nsay done")
    await killed(doomed(house, "text.delta", "after"), run)
    run = await other(house).drive(run)
    types = await house.types(run)
    cut = types.index("step.discarded")
    assert "text.delta" in types[:cut]
    (discarded,) = await house.data(run, "step.discarded")
    assert discarded == {"attempt": 1, "reason": "interrupted"}
    kept = [e.data["text"] for e in (await house.events(run))[cut:] if e.type == "text.delta"]
    assert run.answer is not None
    assert "".join(kept).strip() == run.answer["answer"].strip()


async def test_t9_a_recovered_turn_shows_the_model_the_time_at_which_it_began(
    house: House,
) -> None:
    alice = await house.person()
    await house.agent()
    run = await alice.run("say hi")
    await killed(doomed(house, "message.assistant", "before"), run)
    await house.clock.let_pass(30)
    again = other(house)
    await again.drive(run)
    noon_ms = 1_795_953_600_000
    assert [one.now_unix_ms for one in again.script.requests] == [noon_ms]


async def test_f39_pending_approvals_are_listed_and_decided_after_a_restart(house: House) -> None:
    """F34: the list is folded from the log; there is no second registry."""
    alice = await house.person()
    await house.agent()
    run = await house.drive(await alice.run(JOB))
    again = other(house)
    alice.house = again
    (asked,) = await again.pending(run)
    assert (await alice.approve(asked)).persisted is True
    assert (await again.drive(run)).status == "completed"


async def test_f30_a_decision_that_is_there_when_the_run_parks_is_not_waited_for(
    house: House,
) -> None:
    """An approval can be seen only once its run is parked, so an answer always finds it so."""
    alice = await house.person()
    await house.agent()
    run = await alice.run(JOB)
    lease = await house.driver.claim(run.conversation_id)
    assert lease is not None
    async with asyncio.TaskGroup() as owner:
        owner.create_task(house.driver.drive(lease))
        while not (asked := await house.pending(run)):
            await settle()
        assert (await alice.approve(asked[0])).persisted is True
    assert (await house.drive(run)).status == "completed"


async def test_f40_of_two_recoverers_the_held_one_gets_nothing(house: House) -> None:
    alice = await house.person()
    await house.agent()
    run = await alice.run("say hi")
    first = await house.driver.claim(run.conversation_id)
    assert first is not None
    await house.free(run)
    await other(house).drive(run)
    await house.driver.drive(first)
    assert (await house.types(run)).count("run.started") == 1
    assert await house.driver.claim(run.conversation_id) is None


async def test_f43_a_live_lease_is_left_alone(house: House) -> None:
    alice = await house.person()
    await house.agent()
    run = await alice.run("call charge {}\n---\nsay done")
    hold = house.tools.hold("charge")
    async with asyncio.TaskGroup() as owner:
        drive = owner.create_task(house.drive(run))
        await house.tools.began.wait()
        assert run.conversation_id not in await house.store.queue.stranded()
        assert await other(house).driver.claim(run.conversation_id) is None
        hold.set()
        await drive
    assert house.tools.count("charge") == 1


async def test_f46_only_the_holder_of_the_lease_appends(house: House) -> None:
    alice = await house.person()
    await house.agent()
    run = await alice.run("say hi")
    old = await house.driver.claim(run.conversation_id)
    await house.free(run)
    new = await other(house).driver.claim(run.conversation_id)
    assert old is not None
    assert new is not None
    assert new.generation > old.generation
    event = NewEvent(TextDelta(text="late"), run_id=run.id)
    with pytest.raises(LeaseLost):
        await house.store.leases.append(old, [event], now=house.clock.now())
    await house.store.leases.append(new, [event], now=house.clock.now())


async def test_a_lease_lost_in_mid_turn_ends_the_drive_without_a_word(house: House) -> None:
    alice = await house.person()
    await house.agent()
    hold = house.tools.hold("charge")
    run = await alice.run("call charge {}\n---\nsay done")
    async with asyncio.TaskGroup() as owner:
        drive = owner.create_task(house.driver.drive(await house.claim(run)))
        await house.tools.began.wait()
        await house.free(run)
        lease = await other(house).claim(run)
        hold.set()
        await drive
    assert "tool.completed" not in await house.types(run)
    await other(house).driver.drive(lease)
    assert (await house.read(run)).status == "paused"


async def test_the_heartbeat_keeps_a_long_turn_s_lease(house: House) -> None:
    alice = await house.person()
    await house.agent()
    run = await alice.run("call charge {}\n---\nsay done")
    hold = house.tools.hold("charge")
    async with asyncio.TaskGroup() as owner:
        drive = owner.create_task(house.drive(run))
        await house.tools.began.wait()
        await house.free(run)
        await house.clock.let_pass(20)
        assert await other(house).driver.claim(run.conversation_id) is None
        hold.set()
        await drive
    assert (await house.read(run)).status == "completed"


async def gone() -> None:
    raise StoreUnavailable("the database is gone")


async def broken() -> None:
    raise ValueError("secret of the store")


@pytest.mark.parametrize("fault", [gone, broken])
async def test_what_stands_in_a_run_s_way_never_ends_its_worker(
    house: House, fault: Callable[[], Awaitable[None]]
) -> None:
    """Not even when the attempt cannot be counted: the lease runs out, and another goes on."""
    alice = await house.person()
    await house.agent()
    run = await alice.run("say hi")
    leases = DeadlyLeases(house.store.leases, "run.started", "before", die=fault)
    faulty = House(house.store, house.tenant, house.clock, house.tools, leases=leases)
    await faulty.drive_once(run)
    assert (await house.read(run)).attempts == 0
    await house.free(run)
    assert (await other(house).drive(run)).status == "completed"


async def test_f42_a_run_that_recovery_does_not_help_is_given_up_after_five(house: House) -> None:
    alice = await house.person()
    await house.agent()
    run = await alice.run("say hi")
    for _ in range(6):
        await killed(doomed(house, "message.assistant", "before"), run)
        assert (await house.read(run)).status == "running"
    run = await other(house).drive(run)
    assert run.status == "failed"
    assert run.error is not None
    assert run.error["code"] == "recovery_exhausted"
    assert await house.driver.claim(run.conversation_id) is None


async def test_f42_attempts_that_fail_before_they_write_anything_are_counted(house: House) -> None:
    """A run whose log cannot be folded is not tried for ever, whichever process tries."""
    alice = await house.person()
    await house.agent()
    run = await alice.run("say hi")
    house.script.broken = ValueError("no such model")
    for _ in range(7):
        await house.drive_once(run)
        await house.free(run)
    run = await house.read(run)
    assert run.error is not None
    assert run.error["code"] == "recovery_exhausted"
    later = await alice.run("say hi", conversation_id=run.conversation_id)
    house.script.broken = None
    assert (await house.drive(later)).status == "completed"


async def test_a_drained_turn_stops_at_its_step_and_another_goes_on(house: House) -> None:
    alice = await house.person()
    await house.agent()
    run = await alice.run("call charge {}\n---\ncall read {}\n---\nsay done")
    hold = house.tools.hold("charge")
    async with asyncio.TaskGroup() as owner:
        drive = owner.create_task(house.driver.drive(await house.claim(run)))
        await house.tools.began.wait()
        house.driver.drain()
        hold.set()
        await drive
    assert (await house.read(run)).status == "running"
    assert house.tools.count("read") == 0
    run = await other(house).drive(run)
    assert run.status == "completed"
    assert (house.tools.count("charge"), house.tools.count("read")) == (1, 1)


async def test_a_cancelled_drive_hands_its_run_over_at_once(house: House) -> None:
    alice = await house.person()
    await house.agent(approval={"stamp": "allow"})
    run = await alice.run("call stamp {}\n---\nsay done")
    house.tools.hold("stamp")
    async with asyncio.TaskGroup() as owner:
        drive = owner.create_task(house.driver.drive(await house.claim(run)))
        await house.tools.began.wait()
        drive.cancel()
    house.tools.held.clear()
    assert (await other(house).drive(run)).status == "completed"
