"""The supervisor: takes what is woken, sweeps up what was left, hands over when it is stopped."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio
from typing_extensions import override

from app.errors import StoreUnavailable
from app.service.driving.supervisor import Supervisor
from tests.service.deaths import other
from tests.support.clock import settle
from tests.support.log.killed import DeadlyLeases
from tests.support.service.house import House

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
    from datetime import datetime

    from app.log.records import Lease, RunRecord
    from app.service.ports.queue import Queue
    from tests.support.service.house import Person

pytestmark = pytest.mark.postgres


@pytest_asyncio.fixture(autouse=True)
async def alone(house: House) -> None:
    """No work is there but the test's own."""
    await house.be_alone()


@dataclass
class ShakyQueue:
    """The store's queue, whose database cannot be reached so many times; nobody is woken by it."""

    house: House
    failures: int

    async def work(
        self,
        handle: Callable[[str], Awaitable[None]],
        *,
        concurrency: int,
        has_room: Callable[[], bool] = bool,
    ) -> None:
        await asyncio.Event().wait()

    async def stranded(self) -> list[str]:
        if self.failures:
            self.failures -= 1
            raise StoreUnavailable("the database is gone")
        return await self.house.store.queue.stranded()

    async def overdue_approvals(self, now: datetime, limit: int) -> list[tuple[str, str]]:
        if self.failures:
            raise StoreUnavailable("the database is gone")
        return await self.house.store.queue.overdue_approvals(now, limit)

    async def overdue_questions(self, now: datetime, limit: int) -> list[tuple[str, str]]:
        return await self.house.store.queue.overdue_questions(now, limit)

    async def forget_answers(self, now: datetime, limit: int) -> None:
        return

    async def forget_memory(self, before: datetime, limit: int) -> None:
        return

    async def forget_nonces(self, limit: int) -> None:
        return


class HandingQueue(ShakyQueue):
    """The store's queue as it hands out conversations at once, and waits for those in hand."""

    def __init__(self, house: House, conversations: Sequence[str], *, failures: int = 0) -> None:
        super().__init__(house, failures)
        self.conversations = conversations

    @override
    async def work(
        self,
        handle: Callable[[str], Awaitable[None]],
        *,
        concurrency: int,
        has_room: Callable[[], bool] = bool,
    ) -> None:
        in_hand = [asyncio.ensure_future(handle(each)) for each in self.conversations]
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.gather(*in_hand)


@dataclass
class HeldClaims(DeadlyLeases):
    """The store's leases, of whose claims the answer waits once they are committed."""

    claimed: asyncio.Event = field(default_factory=asyncio.Event)
    answered: asyncio.Event = field(default_factory=asyncio.Event)

    @override
    async def claim(self, conversation_id: str, *, owner: str, ttl_s: float) -> Lease | None:
        lease = await super().claim(conversation_id, owner=owner, ttl_s=ttl_s)
        self.claimed.set()
        await self.answered.wait()
        return lease


def supervisor(
    house: House, *, queue: Queue | None = None, concurrency: int = 8, drain_s: float = 20.0
) -> Supervisor:
    return Supervisor(
        queue=queue or house.store.queue,
        driver=house.driver,
        expiry=house.expiry(queue),
        clock=house.clock,
        concurrency=concurrency,
        drain_s=drain_s,
    )


@asynccontextmanager
async def working(at: Supervisor) -> AsyncIterator[Supervisor]:
    """The supervisor at work until the block ends."""
    async with asyncio.TaskGroup() as owner:
        owner.create_task(at.run())
        try:
            yield at
        finally:
            at.stop()


async def reaches(house: House, who: Person, run: RunRecord) -> RunRecord:
    """The run once it is paused or over."""
    return await house.runs.settled(who.caller, run.id, 30)


async def test_a_woken_run_is_driven_and_goes_on_after_its_decision(house: House) -> None:
    alice = await house.person()
    await house.agent()
    async with working(supervisor(house)):
        run = await reaches(house, alice, await alice.run("call mutate {}\n---\nsay done"))
        assert run.status == "paused"
        await alice.approve((await house.pending(run))[0])
        async with asyncio.timeout(30):
            while not (run := await reaches(house, alice, run)).is_ended:
                await settle()
    assert run.status == "completed"
    assert house.tools.count() == 1


async def test_runs_of_different_conversations_go_side_by_side(house: House) -> None:
    alice = await house.person()
    await house.agent()
    hold = house.tools.hold("charge")
    async with working(supervisor(house)):
        held = await alice.run("call charge {}\n---\nsay done")
        await house.tools.began.wait()
        quick = await reaches(house, alice, await alice.run("say hi"))
        assert quick.status == "completed"
        hold.set()
        assert (await reaches(house, alice, held)).status == "completed"


async def test_f43_what_was_left_before_the_start_is_swept_up(house: House) -> None:
    """F34: a run whose worker died is taken up by the sweep, without anybody's help."""
    alice = await house.person()
    await house.agent()
    run = await alice.run("say hi")
    lost = await house.claim(run)
    assert lost.run.id == run.id
    await house.free(run)
    await house.be_alone()
    assert await house.store.queue.stranded() == [run.conversation_id]
    async with working(supervisor(house)):
        assert (await reaches(house, alice, run)).status == "completed"


async def test_f41_every_run_is_picked_up_by_a_sweep_after_the_database_is_back(
    house: House,
) -> None:
    alice = await house.person()
    await house.agent()
    runs = [await alice.run("say hi") for _ in range(3)]
    await house.be_alone()
    async with working(supervisor(house, queue=ShakyQueue(house, failures=3))):
        async with asyncio.timeout(30):
            while not all([(await house.read(run)).is_ended for run in runs]):
                await house.clock.let_pass(1)
    assert [(await house.read(run)).status for run in runs] == ["completed"] * 3


async def test_a_full_worker_leaves_the_rest_to_others(house: House) -> None:
    alice = await house.person()
    await house.agent()
    hold = house.tools.hold("charge")
    held = await alice.run("call charge {}\n---\nsay done")
    waiting = await alice.run("say hi")
    await house.be_alone()
    async with working(supervisor(house, queue=ShakyQueue(house, 0), concurrency=1)):
        await house.tools.began.wait()
        await house.clock.let_pass(3)
        assert (await house.read(waiting)).status == "queued"
        assert (await other(house).drive(waiting)).status == "completed"
        hold.set()
        assert (await reaches(house, alice, held)).status == "completed"


async def test_t76_the_sweep_ends_approvals_past_their_time(house: House) -> None:
    alice = await house.person()
    await house.agent(approval_ttl_s=60)
    run = await house.drive(await alice.run("call mutate {}\n---\nsay done"))
    async with working(supervisor(house)):
        await settle()
        assert (await house.read(run)).status == "paused"
        await house.clock.let_pass(61)
        async with asyncio.timeout(30):
            while not (run := await reaches(house, alice, run)).is_ended:
                await house.clock.let_pass(1)
    assert run.status == "completed"
    assert [one["outcome"] for one in await house.data(run, "tool.settled")] == ["expired"]


async def test_a_stopped_worker_hands_its_turn_over_at_a_step_boundary(house: House) -> None:
    alice = await house.person()
    await house.agent()
    hold = house.tools.hold("charge")
    at = supervisor(house)
    async with working(at), asyncio.TaskGroup() as owner:
        run = await alice.run("call charge {}\n---\ncall read {}\n---\nsay done")
        await house.tools.began.wait()
        draining = owner.create_task(at.drain())
        await settle()
        assert not draining.done()
        hold.set()
    assert (await house.read(run)).status == "running"
    assert house.tools.count("read") == 0
    assert (await other(house).drive(run)).status == "completed"


async def test_a_wake_that_waits_for_room_begins_nothing_in_a_stopped_worker(
    house: House,
) -> None:
    """A resumed turn would run its tool before its first boundary."""
    alice = await house.person()
    await house.agent()
    decided = await house.drive(await alice.run("call mutate {}\n---\nsay done"))
    await alice.approve((await house.pending(decided))[0])
    hold = house.tools.hold("charge")
    running = await alice.run("call charge {}\n---\nsay done")
    await house.be_alone()
    woken = [running.conversation_id, decided.conversation_id]
    at = supervisor(house, queue=HandingQueue(house, woken), concurrency=1)
    async with working(at), asyncio.TaskGroup() as owner:
        await house.tools.began.wait()
        owner.create_task(at.drain())
        await settle()
        hold.set()
    assert (await house.read(decided)).status == "queued"
    assert house.tools.count("mutate") == 0
    assert (await other(house).drive(decided)).status == "completed"


@pytest.mark.parametrize("is_woken", [True, False], ids=["woken", "swept up"])
async def test_a_claim_that_succeeds_after_the_stop_is_left_to_others_at_once(
    house: House, is_woken: bool
) -> None:
    """What it had begun, no drain would wait for, nor end in time."""
    alice = await house.person()
    await house.agent()
    run = await house.drive(await alice.run("call mutate {}\n---\nsay done"))
    await alice.approve((await house.pending(run))[0])
    await house.be_alone()
    claims = HeldClaims(house.store.leases, "", "before")
    leaving = House(house.store, house.tenant, house.clock, house.tools, leases=claims)
    woken, failures = ([run.conversation_id], 9) if is_woken else ([], 0)
    at = supervisor(leaving, queue=HandingQueue(leaving, woken, failures=failures))
    async with working(at), asyncio.TaskGroup() as owner:
        await claims.claimed.wait()
        draining = owner.create_task(at.drain())
        await settle()
        assert not draining.done()
        claims.answered.set()
    assert house.tools.count("mutate") == 0
    assert (await other(house).drive(run)).status == "completed"


async def test_a_turn_that_reaches_no_boundary_in_time_is_dropped_and_free(house: House) -> None:
    alice = await house.person()
    await house.agent(approval={"stamp": "allow"})
    house.tools.hold("stamp")
    at = supervisor(house, drain_s=0.05)
    async with working(at):
        run = await alice.run("call stamp {}\n---\nsay done")
        await house.tools.began.wait()
    house.tools.held.clear()
    assert (await other(house).drive(run)).status == "completed"


async def test_one_run_s_fault_is_not_another_s(house: House) -> None:
    alice = await house.person()
    await house.agent()
    async with working(supervisor(house)):
        house.script.broken = ValueError("secret of the model")
        faulty = await alice.run("say hi")
        async with asyncio.timeout(30):
            while (await house.read(faulty)).attempts == 0:
                await settle()
        house.script.broken = None
        assert (await reaches(house, alice, await alice.run("say hi"))).status == "completed"
