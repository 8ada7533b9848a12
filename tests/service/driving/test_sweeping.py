"""The sweep: a call that nobody carries out is driven again (F37), old answers are forgotten."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from app.ids import Identity
from app.log.catalogue import PAYLOADS
from app.log.queries import LogScope
from app.runctx.memory import ConversationTurn, MemorySettings
from app.service.approvals.use_cases import Approvals
from app.service.driving.expiry import Expiry
from app.service.driving.supervisor import Supervisor
from app.service.questions.use_cases import Questions
from tests.service.driving.twins import told
from tests.service.questions.questioning import asked
from tests.support.api.killed_requests import DeadlyDatabase, Point
from tests.support.log.killed import Killed

if TYPE_CHECKING:
    from app.service.ports.database import Database
    from tests.support.log.killed import Moment
    from tests.support.service.house import House

pytestmark = pytest.mark.postgres


def supervisor_of(house: House) -> Supervisor:
    return Supervisor(
        queue=house.store.queue,
        driver=house.driver,
        expiry=house.expiry(),
        clock=house.clock,
        concurrency=8,
        drain_s=20.0,
    )


async def test_f37_a_decision_whose_wake_was_lost_is_carried_out_and_counted(
    house: House,
) -> None:
    await house.be_alone()
    alice = await house.person()
    await house.agent()
    run = await house.drive(await alice.run("call mutate {}\n---\nsay done"))
    await alice.approve((await house.pending(run))[0])
    # The queue forgets what the decision told it.
    await house.be_alone()
    swept: list[None] = []
    supervisor = supervisor_of(house)
    supervisor.on_swept(lambda: swept.append(None))
    async with asyncio.TaskGroup() as owner:
        owner.create_task(supervisor.run())
        run = await house.runs.settled(alice.caller, run.id, 30)
        supervisor.stop()
    assert (run.status, house.tools.count(), len(swept)) == ("completed", 1, 1)


async def overdue(house: House, *deaths: Point) -> list[str]:
    """What the log tells of a run that nobody answers, where processes die that are to end that."""
    house.clock.restart()
    run = await asked(house, more="call mutate {}\n", approval_ttl_s=1, question_ttl_s=1)
    house.clock.step(1)
    for death in deaths:
        with pytest.raises(Killed):
            await expiry_on(house, DeadlyDatabase(house.store.database, death)).sweep()
    await house.expiry().sweep()
    assert (await house.drive(run)).status == "completed"
    async with house.store.database.session(house.tenant) as session:
        return told(await session.events_of(LogScope(run.conversation_id), tuple(PAYLOADS)))


def expiry_on(house: House, database: Database) -> Expiry:
    clock = house.clock
    return Expiry(
        queue=house.store.queue,
        approvals=Approvals(database=database, clock=clock, binder=house.binder),
        questions=Questions(database=database, clock=clock, statements=house.statements),
        clock=clock,
    )


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("commit", [0, 1])
async def test_a_process_that_dies_as_it_ends_what_is_overdue_ends_it_once(
    house: House, commit: int, moment: Moment
) -> None:
    """Around the end of the approval, and around that of the question."""
    assert await overdue(house, Point(0, commit, moment)) == await overdue(house)


async def test_an_answer_is_forgotten_a_day_after_its_request(house: House) -> None:
    async with house.store.database.transaction(house.tenant) as tx:
        await tx.claim_key("alice", "order-17", fingerprint="f", now=house.clock.now())
    house.clock.step(24 * 3600)
    left = "SELECT count(*) FROM idempotency_keys WHERE tenant = $1"
    supervisor = supervisor_of(house)
    async with asyncio.TaskGroup() as owner:
        owner.create_task(supervisor.run())
        async with asyncio.timeout(30):
            while await house.store.everyone.pool.fetchval(left, house.tenant):
                await house.clock.let_pass(1)
        supervisor.stop()


async def test_memory_is_kept_for_the_days_that_were_set(house: House) -> None:
    await house.be_alone()
    memory = house.store.memory(MemorySettings(strategy="truncation"), model="script")
    who = Identity(house.tenant, "alice", "conv_1")
    for number in (1, 2):
        turn = ConversationTurn(user_message="q", assistant_response="a", at=None, run=f"r{number}")
        await memory.add_turn(who, turn)
    aged = "UPDATE memory_turns SET created_at = $2 WHERE tenant = $1 AND run_id = $3"
    for run, days in (("r1", 31), ("r2", 29)):
        await house.store.everyone.pool.execute(
            aged, house.tenant, house.clock.now() - timedelta(days=days), run
        )
    supervisor = supervisor_of(house)
    supervisor.forget_memory_after(30)
    async with asyncio.TaskGroup() as owner:
        owner.create_task(supervisor.run())
        while len((await memory.get_llm_context(who)).recent_turns) > 1:
            continue
        supervisor.stop()
    assert [turn.run for turn in (await memory.get_llm_context(who)).recent_turns] == ["r2"]
