"""Creating, waiting for and cancelling runs, and what stands in whose way (service.md 4)."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from app.log.queries import Page
from app.log.records import RunRecord
from app.log.runs import AttachmentRef
from app.service.refusals import (
    AgentUnknown,
    AttachmentUnknown,
    ConversationBusy,
    NotFound,
    OpenRunsExceeded,
    RunTerminal,
    ScopeMissing,
)
from app.service.runs.use_cases import Runs
from tests.support.clock import settle
from tests.support.played.recorded_script import is_paired

if TYPE_CHECKING:
    from tests.support.service.house import House, Person

pytestmark = pytest.mark.postgres

JOB = 'call mutate {"n":1}\n---\nsay done'


async def alice_of(house: House, **agent: Any) -> Person:
    await house.agent(**agent)
    return await house.person()


async def test_a_run_opens_a_conversation_of_its_caller(house: House) -> None:
    alice = await alice_of(house)
    run = await alice.run("say hi", metadata={"order": 17})
    assert (run.status, run.principal, run.metadata) == ("queued", "alice", {"order": 17})
    async with house.store.database.session(house.tenant) as session:
        conversation = await session.conversation(run.conversation_id)
    assert conversation is not None
    assert (conversation.principal, conversation.active_run_id) == ("alice", None)


async def test_what_is_answered_to_a_new_run_is_what_is_read_of_it(house: House) -> None:
    alice = await alice_of(house)
    first = await alice.run("say hi", max_steps=3, metadata={"n": 1})
    assert first == await house.read(first)
    bob = await house.person("bob")
    await house.share(first, "bob")
    second = await bob.run("say hi", conversation_id=first.conversation_id)
    assert second == await house.read(second)
    assert second.tainted is True


async def test_a_run_is_answered_as_it_is_stored(house: House) -> None:
    alice = await alice_of(house)
    bob = await house.person("bob")
    first = await alice.run("say hi", metadata={"order": 17}, max_steps=3)
    await house.share(first, "bob")
    untrusted = await bob.run("say ho", conversation_id=first.conversation_id)
    later = await alice.run("say hi", conversation_id=first.conversation_id)
    assert [run.tainted for run in (first, untrusted, later)] == [False, True, True]
    async with house.store.database.session(house.tenant) as session:
        for run in (first, untrusted, later):
            assert await session.run(run.id) == run


async def test_what_a_run_needs_is_checked_before_anything_is_written(house: House) -> None:
    alice = await alice_of(house)
    with pytest.raises(AgentUnknown) as unknown:
        await alice.run("hi", agent="nobody")
    assert unknown.value.faults[0].pointer == "/agent"
    with pytest.raises(AttachmentUnknown):
        await alice.run("hi", attachments=(AttachmentRef(artifact_id="art_1"),))
    with pytest.raises(ScopeMissing):
        await alice.run("hi", unattended=True)
    with pytest.raises(NotFound):
        await alice.run("hi", conversation_id="conv_unknown")


async def test_a_stranger_creates_no_run_in_somebody_s_conversation(house: House) -> None:
    alice = await alice_of(house)
    run = await alice.run("say hi")
    eve, root = await house.person("eve"), await house.person("root", scopes={"admin"})
    for who in (eve, root):
        with pytest.raises(NotFound):
            await who.run("say hi", conversation_id=run.conversation_id)


async def test_a_principal_has_so_many_open_runs_and_no_more(house: House) -> None:
    alice = await alice_of(house)
    house.runs = Runs(
        database=house.store.database, clock=house.clock, wakeups=house.wakeups, open_runs=1
    )
    first = await alice.run("say hi")
    with pytest.raises(OpenRunsExceeded):
        await alice.run("say hi")
    await house.drive(first)
    await alice.run("say hi")


async def test_runs_created_at_the_same_time_are_all_counted(house: House) -> None:
    alice = await alice_of(house)
    house.runs = Runs(
        database=house.store.database, clock=house.clock, wakeups=house.wakeups, open_runs=2
    )
    said = [alice.run("say hi") for _ in range(6)]
    made = await asyncio.gather(*said, return_exceptions=True)
    assert Counter(type(one) for one in made) == {RunRecord: 2, OpenRunsExceeded: 4}


async def test_enqueued_runs_are_driven_in_order_after_the_paused_one(house: House) -> None:
    """A paused run keeps its place."""
    alice = await alice_of(house)
    first = await house.drive(await alice.run(JOB))
    second = await alice.run("say two", conversation_id=first.conversation_id)
    third = await alice.run("say three", conversation_id=first.conversation_id)
    await house.drive(second)
    assert [(await house.read(run)).status for run in (first, second, third)] == [
        "paused",
        "queued",
        "queued",
    ]
    await alice.approve((await house.pending(first))[0])
    await house.drive(first)
    runs = [await house.read(run) for run in (first, second, third)]
    assert [run.status for run in runs] == ["completed"] * 3
    ends = [run.ended_at for run in runs]
    assert ends == sorted(ends, key=str)


async def test_reject_refuses_while_a_run_is_open(house: House) -> None:
    alice = await alice_of(house)
    first = await house.drive(await alice.run(JOB))
    with pytest.raises(ConversationBusy):
        await alice.run("say no", conversation_id=first.conversation_id, on_busy="reject")
    await alice.cancel(first)
    run = await alice.run("say yes", conversation_id=first.conversation_id, on_busy="reject")
    assert (await house.drive(run)).status == "completed"


async def test_f7_interrupt_cancels_the_active_run_and_goes_next(house: House) -> None:
    alice = await alice_of(house)
    first = await house.drive(await alice.run(JOB))
    (asked,) = await house.pending(first)
    waiting = await alice.run("say later", conversation_id=first.conversation_id)
    urgent = await alice.run("say now", conversation_id=first.conversation_id, on_busy="interrupt")
    await house.drive(urgent)
    assert [(await house.read(run)).status for run in (first, waiting, urgent)] == [
        "cancelled",
        "completed",
        "completed",
    ]
    assert (await house.asked(first))[0].status == "cancelled"
    (cancelled,) = await house.data(first, "run.cancelled")
    assert cancelled == {"by": "alice", "reason": "interrupted"}
    order = [(await house.events(run))[-1].seq for run in (urgent, waiting)]
    assert order == sorted(order)
    assert asked.call_id == "call_1_1_0"


async def test_interrupt_leaves_a_queued_run_alone(house: House) -> None:
    alice = await alice_of(house)
    first = await alice.run("say one")
    urgent = await alice.run("say two", conversation_id=first.conversation_id, on_busy="interrupt")
    await house.drive(urgent)
    assert (await house.read(first)).status == "completed"


async def test_a_queued_run_is_cancelled_without_a_trace_of_work(house: House) -> None:
    alice = await alice_of(house)
    run = await alice.run(JOB)
    run = await alice.cancel(run)
    assert run.status == "cancelled"
    assert await house.types(run) == ["run.created", "message.user", "run.cancelled"]
    assert (await house.drive(run)).status == "cancelled"


async def test_a_paused_run_is_cancelled_with_its_approvals_and_calls(house: House) -> None:
    alice = await alice_of(house)
    run = await house.drive(await alice.run(JOB))
    run = await alice.cancel(run)
    assert (await house.types(run))[-3:] == [
        "approval.resolved",
        "tool.settled",
        "run.cancelled",
    ]
    (settled,) = await house.data(run, "tool.settled")
    assert settled["outcome"] == "cancelled"
    assert run.pending_approvals == ()


async def test_a_decided_run_that_was_not_resumed_is_cancelled(house: House) -> None:
    alice = await alice_of(house)
    run = await house.drive(await alice.run(JOB))
    await alice.approve((await house.pending(run))[0])
    run = await alice.cancel(run)
    assert (await house.drive(run)).status == "cancelled"
    assert house.tools.count() == 0


async def test_cancelling_again_is_no_fault_and_an_ended_run_stays_as_it_is(house: House) -> None:
    alice = await alice_of(house)
    run = await alice.cancel(await alice.run("say hi"))
    assert (await alice.cancel(run)).status == "cancelled"
    done = await house.drive(await alice.run("say hi"))
    with pytest.raises(RunTerminal):
        await alice.cancel(done)
    assert (await house.read(done)).status == "completed"


async def test_only_the_conversation_s_people_cancel(house: House) -> None:
    alice = await alice_of(house)
    run = await house.drive(await alice.run(JOB))
    for who in (await house.person("ann", "approver"), await house.person("eve")):
        with pytest.raises(NotFound):
            await who.cancel(run)
    bob = await house.person("bob")
    await house.share(run, "bob")
    assert (await bob.cancel(run)).status == "cancelled"


async def driving(house: House, run: RunRecord, owner: asyncio.TaskGroup) -> asyncio.Task[Any]:
    """A drive of the run that has come as far as a tool that is held."""
    task = owner.create_task(house.drive(run))
    await house.tools.began.wait()
    await settle()
    return task


async def test_f51_a_run_cancelled_inside_a_tool_leaves_a_usable_conversation(
    house: House,
) -> None:
    """F56: the call is interrupted, its late result is nobody's, the next run is sound."""
    alice = await alice_of(house)
    run = await alice.run("call charge {}\n---\nsay done")
    hold = house.tools.hold("charge")
    async with asyncio.TaskGroup() as owner:
        drive = await driving(house, run, owner)
        assert (await alice.cancel(run)).status == "cancelled"
        hold.set()
        await drive
    types = await house.types(run)
    assert types[-2:] == ["tool.settled", "run.cancelled"]
    assert "tool.completed" not in types
    (settled,) = await house.data(run, "tool.settled")
    assert (settled["outcome"], settled["result"]) == (
        "interrupted",
        '{"error":"interrupted, effect unknown","code":"interrupted"}',
    )
    later = await alice.run("say more", conversation_id=run.conversation_id)
    assert (await house.drive(later)).status == "completed"
    assert is_paired(house.script.requests[-1].messages)


async def test_a_run_that_was_only_claimed_is_never_driven_once_cancelled(house: House) -> None:
    alice = await alice_of(house)
    run = await alice.run("say hi")
    lease = await house.driver.claim(run.conversation_id)
    assert lease is not None
    await alice.cancel(run)
    await house.driver.drive(lease)
    assert await house.types(run) == ["run.created", "message.user", "run.cancelled"]


async def test_a_queued_run_s_end_does_not_disturb_the_one_that_is_driven(house: House) -> None:
    alice = await alice_of(house)
    run = await alice.run("call charge {}\n---\nsay done")
    hold = house.tools.hold("charge")
    async with asyncio.TaskGroup() as owner:
        await driving(house, run, owner)
        other = await alice.run("say hi", conversation_id=run.conversation_id)
        await alice.cancel(other)
        hold.set()
    assert (await house.read(run)).status == "completed"


async def test_whoever_waits_for_a_run_gets_it_when_it_pauses(house: House) -> None:
    alice = await alice_of(house)
    run = await alice.run(JOB)
    async with asyncio.TaskGroup() as owner:
        waiting = owner.create_task(house.runs.settled(alice.caller, run.id, 60))
        await house.drive(run)
    assert waiting.result().status == "paused"


async def test_runs_are_read_and_listed_within_reach(house: House) -> None:
    alice = await alice_of(house)
    first = await alice.run("say hi")
    second = await house.drive(await alice.run("say hi"))
    eve = await house.person("eve")
    async with house.store.database.session(house.tenant) as session:
        assert await house.runs.read(session, alice.caller, second.id) == second
        newest_first = await house.runs.page(session, alice.caller, Page(), {})
        assert [run.id for run in newest_first] == [second.id, first.id]
        queued = await house.runs.page(session, alice.caller, Page(), {"status": "queued"})
        assert [run.id for run in queued] == [first.id]
        assert await house.runs.page(session, eve.caller, Page(), {}) == []
        with pytest.raises(NotFound):
            await house.runs.read(session, eve.caller, second.id)


async def test_whoever_waits_in_vain_gets_the_run_as_it_is(house: House) -> None:
    alice = await alice_of(house)
    run = await alice.run(JOB)
    assert (await house.runs.settled(alice.caller, run.id, 0)).status == "queued"


async def test_waiting_does_not_widen_anybody_s_reach(house: House) -> None:
    alice = await alice_of(house)
    run = await alice.run(JOB)
    eve = await house.person("eve")
    with pytest.raises(NotFound):
        await house.runs.settled(eve.caller, run.id, 60)


async def test_steps_are_shared_by_the_turns_of_a_run(house: House) -> None:
    """A resume gets what is left: the paused step was the first of two, whatever the agent says."""
    alice = await alice_of(house, max_steps=9)
    program = "\n---\n".join(["call mutate {}", *["call read {}"] * 5])
    run = await house.drive(await alice.run(program, max_steps=2))
    await alice.approve((await house.pending(run))[0])
    run = await house.drive(run)
    assert house.tools.count("read") == 1
    assert (run.error or {})["code"] == "no_path"


async def test_a_resume_gets_one_step_at_least(house: House) -> None:
    alice = await alice_of(house)
    run = await house.drive(await alice.run(JOB, max_steps=1))
    await alice.approve((await house.pending(run))[0])
    run = await house.drive(run)
    assert (run.answer or {})["answer"] == "done"


async def test_a_capped_run_that_said_nothing_found_no_path(house: House) -> None:
    alice = await alice_of(house)
    run = await house.drive(await alice.run("call read {}\n---\ncall read {}", max_steps=1))
    assert run.status == "failed"
    assert run.error is not None
    assert run.error["code"] == "no_path"
