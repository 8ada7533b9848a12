"""Who drives a run: one holder of its lease, who keeps it, loses it, hands it over or gives up."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from app.errors import LeaseLost, StoreUnavailable
from app.log.envelope import NewEvent
from app.log.runs import TextDelta
from app.store.open import Store
from tests.service.deaths import doomed, killed, other
from tests.support.log.killed import DeadlyLeases, Killed
from tests.support.log.seals import SEAL
from tests.support.service.house import House
from tests.support.stepped_clock import NOON

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from tests.support.service.house import Person

pytestmark = [pytest.mark.postgres, pytest.mark.fault]


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


async def test_the_lease_of_a_dead_worker_runs_out_by_the_clock_of_the_database(
    house: House,
) -> None:
    """Nobody gives it free: whoever looks before its time finds a run that is being driven."""
    alice = await house.person()
    await house.agent()
    run = await alice.run("say hi")
    leases = DeadlyLeases(house.store.leases, "message.assistant", "before")
    dying = House(house.store, house.tenant, house.clock, house.tools, leases=leases, lease_s=3)
    with pytest.raises(Killed):
        await dying.drive(run)
    assert await other(house).driver.claim(run.conversation_id) is None
    await house.store.everyone.pool.execute(
        "SELECT pg_sleep_until(lease_until) FROM conversations WHERE id = $1", run.conversation_id
    )
    assert (await other(house).drive(run)).status == "completed"


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


async def test_t80_a_paused_run_leaves_its_conversation_free(house: House) -> None:
    """Any worker takes it at once when it is decided; nothing has to run out first."""
    alice = await house.person()
    await house.agent()
    run = await house.drive(await alice.run("call mutate {}\n---\nsay done"))
    assert run.status == "paused"
    await alice.approve((await house.pending(run))[0])
    lease = await other(house).driver.claim(run.conversation_id)
    assert lease is not None
    assert (lease.run.id, house.clock.now()) == (run.id, NOON)


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


async def test_a_cancel_reaches_a_running_tool_at_once(house: House) -> None:
    """service.md 4: the clock stands still here, so no heartbeat could have told."""
    alice = await house.person()
    await house.agent()
    await cancelled_by(alice, house)


async def test_a_cancel_in_another_process_reaches_it_too(house: House, dsn: str) -> None:
    await house.agent()
    async with Store.open(dsn, seal=SEAL, process="elsewhere") as store:
        await cancelled_by(await House(store, house.tenant).person(), house)


async def cancelled_by(alice: Person, house: House) -> None:
    """A run is cancelled while its tool is held; the drive must end by itself."""
    run = await alice.run("call charge {}\n---\nsay done")
    house.tools.hold("charge")
    async with asyncio.TaskGroup() as owner:
        drive = owner.create_task(house.drive_once(run))
        await house.tools.began.wait()
        await alice.cancel(run)
        await drive
    assert (await house.read(run)).status == "cancelled"
    assert await house.data(run, "tool.completed") == []
