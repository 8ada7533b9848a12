"""The append: order, hashes, fences and fidelity, on a real database."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import asyncpg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.errors import LeaseLost
from app.log.envelope import NewEvent
from app.log.queries import LogScope
from app.log.runs import MessageUser, TextContent
from app.policy.taint import Trust
from app.store.open import Store
from app.trust.chain import ChainRecord, verify_chain
from tests.support.database.postgres import (
    NOON,
    Talk,
    as_owner,
    completed,
    new_id,
    run_created,
    said,
    started,
)
from tests.support.log.seals import SEAL

pytestmark = pytest.mark.postgres


async def rows(store: Store, conversation_id: str) -> list[asyncpg.Record]:
    return await store.everyone.pool.fetch(
        "SELECT * FROM events WHERE conversation_id = $1 ORDER BY seq", conversation_id
    )


async def test_f84_concurrent_writers_leave_no_gap_and_one_chain(store: Store, tenant: str) -> None:
    """T139."""
    talk = await Talk(store, tenant).open()
    run_id = await talk.ask()
    lease = await talk.claim()
    await asyncio.gather(
        *(talk.write(lease, said(run_id, str(n)), said(run_id, "!")) for n in range(40)),
        *(talk.request(said(run_id, f"request {n}")) for n in range(20)),
    )
    found = await rows(store, talk.id)
    assert [row["seq"] for row in found] == list(range(1, 103))
    records = [
        ChainRecord(row["seq"], row["body"], row["private"], row["prev_hash"], row["hash"])
        for row in found
    ]
    assert verify_chain(records) is None


async def test_f84_a_reader_that_polls_sees_every_event_in_order(store: Store, tenant: str) -> None:
    """F84: the first writer's transaction is open while the second tries to write."""
    talk = await Talk(store, tenant).open()
    run_id = await talk.ask()
    lease = await talk.claim()
    scope = LogScope(talk.id)
    async with store.database.transaction(tenant) as tx, store.database.session(tenant) as reader:
        await tx.lock(talk.id)
        await tx.append(talk.id, [said(run_id, "first")], now=NOON)
        second = asyncio.ensure_future(talk.write(lease, said(run_id, "second")))
        await asyncio.wait([second], timeout=0.05)
        assert not second.done()
        assert [event.seq for event in await reader.events(scope, after=0, limit=9)] == [1, 2]
    assert [event.seq for event in await second] == [4]
    async with store.database.session(tenant) as reader:
        seen = await reader.events(scope, after=2, limit=9)
    assert [event.data["text"] for event in seen] == ["first", "second"]


async def test_a_worker_that_lost_its_lease_writes_nothing(store: Store, tenant: str) -> None:
    talk = await Talk(store, tenant).open()
    run_id = await talk.ask()
    lost = await talk.claim()
    async with store.database.transaction(tenant) as tx:
        await tx.lock(talk.id)
        await tx.revoke_lease(talk.id)
    held = await talk.claim("another")
    assert held.generation > lost.generation
    with pytest.raises(LeaseLost):
        await talk.write(lost, started(run_id))
    await talk.write(held, started(run_id))
    with pytest.raises(LeaseLost):
        await talk.finish(lost, completed(run_id))
    with pytest.raises(LeaseLost):
        await store.leases.renew(lost, ttl_s=60)
    assert len(await rows(store, talk.id)) == 3


async def test_after_finishing_a_worker_writes_no_more(store: Store, tenant: str) -> None:
    talk = await Talk(store, tenant).open()
    run_id = await talk.ask()
    lease = await talk.claim()
    await talk.write(lease, started(run_id))
    await talk.finish(lease, completed(run_id))
    with pytest.raises(LeaseLost):
        await talk.write(lease, said(run_id, "late"))


async def test_the_log_can_only_grow(store: Store, tenant: str) -> None:
    await Talk(store, tenant).open()
    async with as_owner(store) as owner:
        for statement in (
            "UPDATE events SET type = 'x'",
            "DELETE FROM events",
            "TRUNCATE events",
        ):
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                await store.everyone.pool.execute(statement)
            with pytest.raises(asyncpg.RaiseError, match="append-only"):
                await owner.execute(statement)


async def test_a_conversation_that_does_not_exist_is_not_appended_to(
    store: Store, tenant: str
) -> None:
    talk = await Talk(store, tenant).open()
    await talk.ask()
    lease = await talk.claim()
    with pytest.raises(LeaseLost):
        await store.leases.append(
            replace(lease, conversation_id="conv_none"), [said("r", "x")], now=NOON
        )
    async with store.database.transaction(tenant) as tx:
        assert await tx.lock("conv_none") is None
        with pytest.raises(RuntimeError, match="must be locked"):
            await tx.append("conv_none", [said("r", "x")], now=NOON)


async def test_a_conversation_begins_with_its_creation(store: Store, tenant: str) -> None:
    async with store.database.transaction(tenant) as tx:
        await tx.create_conversation("conv_odd", now=NOON)
        with pytest.raises(ValueError, match="must begin with"):
            await tx.append("conv_odd", [run_created("run_odd")], now=NOON)


async def test_quarantined_events_taint_the_conversation_for_good(
    store: Store, tenant: str
) -> None:
    talk = await Talk(store, tenant).open()
    run_id = await talk.ask()
    await talk.request(said(run_id, "a"))
    tainting = await talk.request(said(run_id, "b", trust=Trust.QUARANTINED_CONTENT))
    await talk.request(said(run_id, "c"))
    await talk.ask()
    async with store.database.session(tenant) as session:
        conversation = await session.conversation(talk.id)
        assert conversation
        assert conversation.tainted
        assert await session.tainted_by(talk.id, 20) == [tainting[0].seq]
        assert [run.tainted for run in await session.unfinished_runs(talk.id)] == [True, True]


TEXT = st.text(st.one_of(st.just("\0"), st.characters(exclude_categories=["Cs"])), max_size=30)


@given(texts=st.lists(TEXT, min_size=1, max_size=5))
def test_f82_any_text_is_stored_and_read_back_unchanged(dsn: str, texts: list[str]) -> None:
    asyncio.run(_write_and_read(dsn, texts))


async def _write_and_read(dsn: str, texts: list[str]) -> None:
    async with Store.open(dsn, seal=SEAL, process="fidelity") as store:
        talk = await Talk(store, texts[0] + "t").open(title=texts[0], participants=[texts[-1]])
        run_id = await talk.ask(metadata={text: text for text in texts})
        said_by_user = MessageUser(
            message_id="m",
            content=tuple(TextContent(text=text) for text in texts),
            principal=texts[0],
        )
        (written,) = await talk.request(NewEvent(said_by_user, run_id=run_id))
        async with store.database.session(texts[0] + "t") as session:
            conversation = await session.conversation(talk.id)
            run = await session.run(run_id)
            event = await session.event(talk.id, written.seq)
        assert conversation
        assert (conversation.title, conversation.participants) == (texts[0], (texts[-1],))
        assert run
        assert run.metadata == {text: text for text in texts}
        assert event == written
        assert event.data == said_by_user.wire()


async def test_ids_are_never_empty(store: Store, tenant: str) -> None:
    with pytest.raises(asyncpg.CheckViolationError):
        await Talk(store, tenant, id="").open()
    talk = await Talk(store, tenant).open()
    with pytest.raises(asyncpg.CheckViolationError):
        await talk.request(run_created(""))
    assert new_id("run")
