"""An approval with what belongs to it, in one statement: whoever waited for it sees it anew."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from app.log.records import ConsentRecords, DecisionClaims, KeyRecord
from tests.support.database.postgres import (
    NOON,
    Talk,
    approval_requested,
    decided,
    new_id,
    paused,
    question_asked,
    resolved,
    somebody_waits,
    started,
)

if TYPE_CHECKING:
    from app.store.open import Store

pytestmark = pytest.mark.postgres


async def asked(store: Store, tenant: str, *approvals: str, question: str = "") -> tuple[Talk, str]:
    """A run that is paused on those approvals, and on a question if there is one."""
    talk = await Talk(store, tenant).open()
    run = await talk.ask()
    await talk.request(
        started(run),
        *(approval_requested(each, run, talk.id) for each in approvals),
        *([question_asked(question, run)] if question else []),
        paused(run, *approvals),
    )
    return talk, run


async def put_key(store: Store, tenant: str, key_id: str) -> KeyRecord:
    key = KeyRecord(key_id, tenant, "alice", new_id("print"), {"kty": "EC"}, "laptop", NOON, None)
    async with store.database.transaction(tenant) as tx:
        assert await tx.put_key(key)
    return key


async def test_a_locked_approval_has_its_key_its_people_and_what_its_run_waits_for(
    store: Store, tenant: str
) -> None:
    one, two, question, key_id = new_id("appr"), new_id("appr"), new_id("ques"), new_id("key")
    talk, run = await asked(store, tenant, one, two, question=question)
    key = await put_key(store, tenant, key_id)
    await talk.request(decided(two, run), resolved(two, run, "approved"))
    async with store.database.transaction(tenant) as tx:
        locked = await tx.lock_approval(one, DecisionClaims(key_id))
        assert locked
        assert (locked.approval.id, locked.conversation.id) == (one, talk.id)
        assert (locked.conversation.principal, locked.conversation.active_run_id) == ("alice", run)
        assert locked.key == key
        assert locked.awaited == {one, question}
        # The lock is there: its holder may append.
        await tx.append(talk.id, [resolved(one, run, "denied")], now=NOON)


async def nonce_of(store: Store, tenant: str, approval: str, payload: str) -> str | None:
    """Claim the nonce for that payload, and keep it; whose it is."""
    async with store.database.transaction(tenant) as tx:
        locked = await tx.lock_approval(approval, DecisionClaims(nonce="n", payload_sha256=payload))
        return None if locked is None else locked.nonce_of


async def test_a_nonce_is_that_of_the_first_payload_in_every_conversation_of_a_tenant(
    store: Store, tenant: str
) -> None:
    one, other, elsewhere = new_id("appr"), new_id("appr"), new_id("appr")
    await asked(store, tenant, one)
    await asked(store, tenant, other)
    await asked(store, f"{tenant}-other", elsewhere)
    assert await nonce_of(store, tenant, new_id("appr"), "nobody's") is None
    assert await nonce_of(store, tenant, one, "first") == "first"
    assert await nonce_of(store, tenant, one, "first") == "first"
    assert await nonce_of(store, tenant, one, "second") == "first"
    assert await nonce_of(store, tenant, other, "second") == "first"
    assert await nonce_of(store, f"{tenant}-other", elsewhere, "second") == "second"


async def test_f89_of_two_payloads_with_one_nonce_the_later_waits_and_learns_whose_it_is(
    store: Store, tenant: str
) -> None:
    one, other = new_id("appr"), new_id("appr")
    await asked(store, tenant, one)
    await asked(store, tenant, other)
    async with asyncio.TaskGroup() as group, store.database.transaction(tenant) as tx:
        await tx.lock_approval(one, DecisionClaims(nonce="n", payload_sha256="first"))
        second = group.create_task(nonce_of(store, tenant, other, "second"))
        await somebody_waits(store)
    assert second.result() == "first"


async def test_a_nonce_is_free_again_when_its_decision_is_rolled_back(
    store: Store, tenant: str
) -> None:
    one = new_id("appr")
    await asked(store, tenant, one)

    async def refused() -> None:
        async with store.database.transaction(tenant) as tx:
            await tx.lock_approval(one, DecisionClaims(nonce="n", payload_sha256="first"))
            raise LookupError

    with pytest.raises(LookupError):
        await refused()
    assert await nonce_of(store, tenant, one, "second") == "second"


async def test_nobody_locks_or_reads_across_tenants(store: Store, tenant: str) -> None:
    one, key_id, other = new_id("appr"), new_id("key"), f"{tenant}-other"
    talk, run = await asked(store, tenant, one)
    await put_key(store, other, key_id)
    async with store.database.transaction(tenant) as tx:
        locked = await tx.lock_approval(one, DecisionClaims(key_id))
        assert locked
        assert locked.key is None
    async with store.database.transaction(other) as tx:
        assert await tx.lock_approval(one) is None
        assert await tx.consent_records(talk.id, run) == ConsentRecords()


async def test_who_waited_for_the_lock_sees_what_was_decided_meanwhile(
    store: Store, tenant: str
) -> None:
    one, two = new_id("appr"), new_id("appr")
    talk, run = await asked(store, tenant, one, two)

    async def second() -> None:
        async with store.database.transaction(tenant) as tx:
            locked = await tx.lock_approval(one)
            assert locked
            assert locked.approval.status == "approved"
            assert [decision.approver for decision in locked.approval.decisions] == ["alice"]
            assert locked.awaited == {two}

    async with asyncio.TaskGroup() as group, store.database.transaction(tenant) as tx:
        await tx.lock_approval(one)
        group.create_task(second())
        await somebody_waits(store)
        events = [decided(one, run), resolved(one, run, "approved")]
        await tx.append(talk.id, events, now=NOON)


async def test_consents_are_the_run_s_own_and_those_that_stand(store: Store, tenant: str) -> None:
    before, own, key_id = new_id("appr"), new_id("appr"), "key_1"
    talk, first = await asked(store, tenant, before)
    await talk.request(decided(before, first, scope="session"), resolved(before, first, "approved"))
    run = await talk.ask()
    await talk.request(started(run), approval_requested(own, run, talk.id), paused(run, own))
    key = await put_key(store, tenant, key_id)
    async with store.database.session(tenant) as session:
        given = await session.consent_records(talk.id, run)
        assert given.approvals == (await session.approval(own),)
        (standing,) = await session.session_approvals(talk.id)
        assert given.standing == ((standing, await session.approval(before)),)
        assert given.keys == {key_id: key}
