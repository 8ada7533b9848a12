"""Reads: whose resources a list shows, how it is paged, and what a log gives."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from app.log.envelope import NewEvent
from app.log.queries import LogScope, Page, Reach
from app.log.records import AgentRecord
from app.log.runs import RunCheckpointed
from tests.support.database.postgres import (
    NOON,
    Talk,
    approval_requested,
    completed,
    new_id,
    run_created,
    said,
    started,
    tool_completed,
)

if TYPE_CHECKING:
    from app.store.open import Store

pytestmark = pytest.mark.postgres

ALL = Reach(principal=None)


async def test_another_tenant_sees_nothing(store: Store, tenant: str) -> None:
    talk = await Talk(store, tenant).open(participants=["bob"])
    run_id, approval_id = await talk.ask(), new_id("appr")
    await talk.request(approval_requested(approval_id, run_id, talk.id))
    scope = LogScope(talk.id)
    async with store.database.session(f"{tenant}-other") as foreign:
        assert await foreign.conversation(talk.id) is None
        assert await foreign.run(run_id) is None
        assert await foreign.run_and_conversation(run_id) is None
        assert await foreign.approval(approval_id) is None
        assert await foreign.conversations(ALL, Page()) == []
        assert await foreign.runs(ALL, Page(), filters={}) == []
        assert await foreign.approvals(ALL, Page(), filters={}) == []
        assert await foreign.run_approvals(run_id) == []
        assert await foreign.unfinished_runs(talk.id) == []
        assert await foreign.events(scope, after=0, limit=9) == []
        assert await foreign.event(talk.id, 1) is None
        assert await foreign.events_of(scope, ["run.created"]) == []
        assert await foreign.latest(scope, "run.created") is None
        assert await foreign.head(scope) == 0
        assert await foreign.head(LogScope(talk.id, run_id)) == 0
    async with store.database.transaction(f"{tenant}-other") as foreign:
        assert await foreign.lock(talk.id) is None


async def test_conversations_are_shown_to_their_people(store: Store, tenant: str) -> None:
    mine = await Talk(store, tenant).open(participants=["bob"])
    other = await Talk(store, tenant).open()
    async with store.database.session(tenant) as session:
        for reach, expected in (
            (ALL, [other.id, mine.id]),
            (Reach("alice"), [other.id, mine.id]),
            (Reach("bob"), [mine.id]),
            (Reach("eve", frozenset({"approver"})), []),
        ):
            found = await session.conversations(reach, Page())
            assert [conversation.id for conversation in found] == expected


async def test_lists_are_paged_by_their_last_id(store: Store, tenant: str) -> None:
    talk = await Talk(store, tenant).open()
    ids = [await talk.ask() for _ in range(5)]
    seen: list[str] = []
    before = None
    async with store.database.session(tenant) as session:
        while page := await session.runs(ALL, Page(2, before), filters={}):
            assert len(page) <= 2
            seen += [run.id for run in page]
            before = seen[-1]
        assert seen == ids[::-1]
        newest, *_ = await session.conversations(ALL, Page(1))
        assert await session.conversations(ALL, Page(1, newest.id)) == []


async def test_open_runs_are_those_of_one_principal_in_one_tenant(
    store: Store, tenant: str
) -> None:
    talk = await Talk(store, tenant).open()
    done, _, _ = await talk.ask(), await talk.ask(), await talk.ask(agent="scribe")
    await talk.ask(principal="bob")
    await (await Talk(store, f"{tenant}-other").open()).ask()
    await talk.finish(await talk.claim(), started(done), completed(done))
    helper = AgentRecord(tenant, "helper", {"model": "script"}, "d" * 64, NOON, NOON)
    async with store.database.transaction(tenant) as tx:
        await tx.put_agent(helper)
    async with store.database.session(tenant) as session:
        assert await session.agent_and_open_runs("helper", "alice") == (helper, 2)


async def test_a_run_is_read_together_with_its_conversation(store: Store, tenant: str) -> None:
    talk = await Talk(store, tenant).open(participants=["bob"], title="Tea")
    run_id = await talk.ask()
    await talk.request(started(run_id))
    async with store.database.session(tenant) as session:
        found = await session.run_and_conversation(run_id)
        assert found == (await session.run(run_id), await session.conversation(talk.id))
        assert found is not None
        assert found[1].active_run_id == run_id


async def test_runs_are_filtered(store: Store, tenant: str) -> None:
    talk, other = await Talk(store, tenant).open(), await Talk(store, tenant).open()
    first, second = await talk.ask(), await talk.ask(agent="scribe", principal="bob")
    third = await other.ask()
    await talk.request(started(first))
    async with store.database.session(tenant) as session:
        for filters, expected in (
            ({"status": "running"}, [first]),
            ({"agent": "scribe"}, [second]),
            ({"conversation_id": other.id}, [third]),
            ({"status": "queued", "agent": "helper"}, [third]),
        ):
            found = await session.runs(ALL, Page(), filters=filters)
            assert [run.id for run in found] == expected
        of_bob = await session.runs(Reach("bob"), Page(), filters={})
        assert [run.id for run in of_bob] == [second]
        with pytest.raises(ValueError, match="colour"):
            await session.runs(ALL, Page(), filters={"colour": "red"})


async def test_approvals_are_shown_to_those_who_may_decide(store: Store, tenant: str) -> None:
    talk = await Talk(store, tenant).open(participants=["bob"])
    run_id = await talk.ask()
    plain, program = new_id("appr"), new_id("appr")
    await talk.request(
        approval_requested(plain, run_id, talk.id),
        approval_requested(
            program,
            run_id,
            talk.id,
            private=b'{"programs":["robot"]}',
            required={"count": 1, "assurance": "key", "roles": (), "allow_self": False},
        ),
    )
    async with store.database.session(tenant) as session:
        for reach, expected in (
            (ALL, [program, plain]),
            (Reach("alice"), [program, plain]),
            (Reach("bob"), [program, plain]),
            (Reach("carol", frozenset({"approver", "x"})), [plain]),
            (Reach("robot"), [program]),
            (Reach("eve", frozenset({"x"})), []),
        ):
            found = await session.approvals(reach, Page(), filters={"status": "pending"})
            assert [approval.id for approval in found] == expected
        assert await session.approvals(ALL, Page(), filters={"status": "approved"}) == []
        in_order = await session.run_approvals(run_id)
        assert [approval.id for approval in in_order] == [plain, program]


async def test_a_log_is_read_by_conversation_and_by_run(store: Store, tenant: str) -> None:
    talk = await Talk(store, tenant).open()
    one, two = await talk.ask(), await talk.ask()
    await talk.request(said(one, "a"), said(two, "b"), said(one, "c"))
    whole, part = LogScope(talk.id), LogScope(talk.id, one)
    async with store.database.session(tenant) as session:
        assert [e.seq for e in await session.events(whole, after=1, limit=3)] == [2, 3, 4]
        assert [e.seq for e in await session.events(part, after=0, limit=9)] == [2, 4, 6]
        assert [e.seq for e in await session.events(part, after=2, limit=1)] == [4]
        assert await session.head(whole) == 6
        assert await session.head(LogScope(talk.id, two)) == 5
        run = await session.run(two)
        assert run
        assert run.head_seq == 5
        assert await session.event(talk.id, 7) is None


async def test_facts_come_with_their_private_bytes_and_pages_without(
    store: Store, tenant: str
) -> None:
    talk = await Talk(store, tenant).open()
    run_id = await talk.ask()
    checkpoint = RunCheckpointed(engine_format=1, sha256="0" * 64, size_bytes=2)
    await talk.request(
        *(NewEvent(checkpoint, run_id=run_id, private=b"%d" % n) for n in range(3)),
        said(run_id, "text"),
        tool_completed(run_id, "c"),
    )
    whole, part = LogScope(talk.id), LogScope(talk.id, run_id)
    async with store.database.session(tenant) as session:
        for scope in (whole, part):
            latest = await session.latest(scope, "run.checkpointed")
            assert latest
            assert (latest.seq, latest.private) == (5, b"2")
            created = await session.latest(scope, "run.created")
            assert created
            assert created.seq == 2
            assert await session.latest(scope, "run.failed") is None
            wanted = ["run.checkpointed", "tool.completed"]
            facts = await session.events_of(scope, wanted, after=3)
            assert [(e.seq, e.private) for e in facts] == [(4, b"1"), (5, b"2"), (7, None)]
            facts = await session.events_of(scope, [*wanted, "text.delta"], limit=4)
            assert [e.seq for e in facts] == [3, 4, 5, 6]
        run = await session.run(run_id)
        assert run
        facts = await session.run_facts(run, but=["message.user", "run.created"])
        assert [(e.seq, e.private) for e in facts] == [(3, b"0"), (4, b"1"), (5, b"2"), (7, None)]
        assert [e.private for e in await session.events(whole, after=2, limit=2)] == [None, None]
        one = await session.event(talk.id, 5)
        assert one
        assert one.private is None


@pytest.mark.parametrize("odd", ["", "nul\0", "\uffff", "conv_'; --"])
async def test_an_odd_id_is_just_not_there(store: Store, tenant: str, odd: str) -> None:
    async with store.database.session(tenant) as session:
        assert await session.conversation(odd) is None
        assert await session.run(odd) is None
        assert await session.approval(odd) is None
        assert await session.agent(odd) is None
        assert await session.key(odd) is None
        assert await session.events(LogScope(odd, odd), after=0, limit=1) == []
        assert await session.head(LogScope(odd, odd)) == 0


async def test_a_transaction_reads_what_it_has_written(store: Store, tenant: str) -> None:
    talk = await Talk(store, tenant).open()
    run_id = new_id("run")
    async with store.database.transaction(tenant) as tx:
        locked = await tx.lock(talk.id)
        assert locked
        assert (locked.id, locked.active_run_id) == (talk.id, None)
        await tx.append(talk.id, [run_created(run_id), started(run_id)], now=locked.created_at)
        run = await tx.run(run_id)
        assert run
        assert (run.status, run.head_seq) == ("running", 3)
        async with store.database.session(tenant) as outside:
            assert await outside.run(run_id) is None
    async with store.database.transaction(tenant) as tx:
        locked = await tx.lock(talk.id)
        assert locked
        assert locked.active_run_id == run_id
        await tx.append(talk.id, [completed(run_id)], now=locked.created_at)
        assert await tx.unfinished_runs(talk.id) == []
