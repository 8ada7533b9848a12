"""What is streamed is what the log holds: committed, in order, and seen by every reader alike."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from app.log.queries import LogScope
from app.service.refusals import Refusal
from tests.support.clock import settle

if TYPE_CHECKING:
    from collections.abc import Sequence

    from app.log.envelope import Event
    from app.log.records import RunRecord
    from tests.support.service.house import House, Person

pytestmark = pytest.mark.postgres


async def played(house: House, run: RunRecord) -> RunRecord:
    """Drive the run while its time passes."""
    async with asyncio.TaskGroup() as owner:
        drive = owner.create_task(house.drive(run))
        while not drive.done():
            await house.clock.let_pass(0.01)
    return drive.result()


async def test_f72_ten_thousand_tokens_become_deltas_that_lose_nothing(house: House) -> None:
    """A subscriber that listens to commits and one that reads later see the same."""
    alice = await house.person()
    await house.agent()
    live: list[Event] = []

    def heard(_conversation: str, events: Sequence[Event]) -> None:
        live.extend(events)

    house.store.signals.on_commit(heard)
    run = await alice.run("tokens 10000 word")
    run = await played(house, run)
    await settle()
    later = await house.events(run)
    deltas = [event for event in later if event.type == "text.delta"]
    assert run.answer is not None
    assert "".join(event.data["text"] for event in deltas) == run.answer["answer"]
    assert all(len(event.data["text"].encode()) <= 2048 for event in deltas)
    assert len(deltas) < 200
    assert [e.body for e in live if e.run_id == run.id] == [event.body for event in later]


async def test_f50_whatever_is_published_is_in_the_log_with_the_same_bytes(house: House) -> None:
    alice = await house.person()
    await house.agent()
    published: list[Event] = []
    house.store.signals.on_commit(lambda _conversation, events: published.extend(events))
    run = await alice.run("think hm\nsay one\ncall read {}\n---\nsay two")
    await played(house, run)
    await settle()
    async with house.store.database.session(house.tenant) as session:
        for event in published:
            stored = await session.event(event.conversation_id, event.seq)
            assert stored is not None
            assert (stored.body, stored.type) == (event.body, event.type)
    assert [event.seq for event in published] == list(range(1, len(published) + 1))


async def test_reasoning_is_streamed_and_never_part_of_the_answer(house: House) -> None:
    alice = await house.person()
    await house.agent()
    run = await played(house, await alice.run("think secret plan\nsay the answer"))
    assert run.answer is not None
    assert run.answer["answer"] == "the answer"
    assert "".join(d["text"] for d in await house.data(run, "reasoning.delta")) == "secret plan"


async def decide_at_once(house: House, alice: Person, run: RunRecord) -> list[bool]:
    """Approve whatever is asked, the moment its commit is heard of."""
    asked: asyncio.Queue[str] = asyncio.Queue()

    def heard(_conversation: str, events: Sequence[Event]) -> None:
        for event in events:
            if event.type == "approval.requested":
                asked.put_nowait(event.data["id"])

    house.store.signals.on_commit(heard)
    accepted: list[bool] = []
    async with asyncio.TaskGroup() as owner:
        drive = owner.create_task(house.drive(run))
        for _ in range(3):
            approval_id = await asked.get()
            canonical = await alice.payload(approval_id, decision="approve")
            try:
                decided = await alice.post(approval_id, "approve", alice.sign(canonical))
                accepted.append(decided.persisted)
            except Refusal:
                accepted.append(False)
            if drive.done() or (await house.read(run)).status == "queued":
                await drive
                drive = owner.create_task(house.drive(run))
    return accepted


@pytest.mark.parametrize("attempt", range(5))
async def test_f49_a_decision_at_the_sight_of_its_request_is_always_accepted(
    house: House, attempt: int
) -> None:
    alice = await house.person()
    await house.agent()
    program = "\n---\n".join([*["call mutate {}"] * 3, "say done"])
    run = await alice.run(program)
    assert await decide_at_once(house, alice, run) == [True, True, True]
    assert (await house.drive(run)).status == "completed"
    assert house.tools.count() == 3


async def test_the_whole_log_is_contiguous_and_read_by_any_reach_of_it(house: House) -> None:
    """T139."""
    alice = await house.person()
    await house.agent()
    first = await house.drive(await alice.run("say one"))
    second = await house.drive(await alice.run("say two", conversation_id=first.conversation_id))
    async with house.store.database.session(house.tenant) as session:
        everything = await session.events(LogScope(first.conversation_id), after=0, limit=1000)
    assert [event.seq for event in everything] == list(range(1, len(everything) + 1))
    of_runs = [*await house.events(first), *await house.events(second)]
    assert [e.seq for e in everything if e.run_id] == [event.seq for event in of_runs]
