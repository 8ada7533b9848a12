"""What requests write: keys that may be used once, agents, approver keys."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

import asyncpg
import pytest

from app.errors import IdempotencyInProgress, IdempotencyMismatch, StoreUnavailable
from app.log.audit import KeyRegistered
from app.log.envelope import NewEvent
from app.log.queries import LogScope, Page
from app.log.records import AgentRecord, KeyRecord, StoredAnswer
from app.store.open import Store
from app.store.server import connections
from tests.support.database.postgres import NOON, Talk, after, new_id
from tests.support.log.seals import SEAL

if TYPE_CHECKING:
    from datetime import datetime

pytestmark = pytest.mark.postgres

ANSWER = StoredAnswer(201, {"Location": "/v1/runs/run_1"}, b'{"id": "run_1"}')


async def use(
    store: Store, tenant: str, key: str = "k", *, fingerprint: str = "f", now: datetime = NOON
) -> StoredAnswer | None:
    """Claim the key and answer it, as a request does; the first answer, if there was one."""
    async with store.database.transaction(tenant) as tx:
        first = await tx.claim_key("alice", key, fingerprint=fingerprint, now=now)
        if first is None:
            await tx.save_answer("alice", key, ANSWER)
        return first


async def test_a_key_gives_the_first_answer_again(store: Store, tenant: str) -> None:
    assert await use(store, tenant) is None
    assert await use(store, tenant) == ANSWER
    assert await use(store, tenant, "other") is None
    assert await use(store, tenant + "x") is None


async def test_a_key_with_another_request_is_refused(store: Store, tenant: str) -> None:
    await use(store, tenant)
    with pytest.raises(IdempotencyMismatch):
        await use(store, tenant, fingerprint="other")


async def test_a_key_is_free_again_after_a_day(store: Store, tenant: str) -> None:
    await use(store, tenant)
    assert await use(store, tenant, now=after(24 * 3600 - 1), fingerprint="f") == ANSWER
    assert await use(store, tenant, now=after(24 * 3600), fingerprint="other") is None


async def test_f91_a_failed_request_leaves_its_key_free(store: Store, tenant: str) -> None:
    async def fail() -> None:
        async with store.database.transaction(tenant) as tx:
            await tx.claim_key("alice", "k", fingerprint="f", now=NOON)
            raise LookupError

    with pytest.raises(LookupError):
        await fail()
    assert await use(store, tenant) is None


async def test_of_twenty_concurrent_senders_one_has_an_effect(
    store: Store, dsn: str, tenant: str
) -> None:
    """Two processes, ten senders each: one creates, and all get its answer."""

    async def send(to: Store, number: int) -> str:
        async with to.database.transaction(tenant) as tx:
            first = await tx.claim_key("alice", "order", fingerprint="f", now=NOON)
            if first is not None:
                return first.body.decode()
            mine = f"run {number}"
            await tx.save_answer("alice", "order", replace(ANSWER, body=mine.encode()))
            return mine

    async with Store.open(dsn, seal=SEAL, process="another") as other:
        answers = await asyncio.gather(*(send(store if n % 2 else other, n) for n in range(20)))
    assert len(set(answers)) == 1


async def test_a_sender_that_waits_too_long_is_told(
    dsn: str, tenant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(connections.SESSION, "lock_timeout", "50ms")
    async with Store.open(dsn, seal=SEAL, process="impatient") as store:
        async with store.database.transaction(tenant) as tx:
            await tx.claim_key("alice", "k", fingerprint="f", now=NOON)
            with pytest.raises(IdempotencyInProgress):
                await use(store, tenant)
            await tx.save_answer("alice", "k", ANSWER)
        assert await use(store, tenant) == ANSWER


async def test_a_lock_that_is_waited_for_too_long_is_unavailable(
    dsn: str, tenant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(connections.SESSION, "lock_timeout", "50ms")
    async with Store.open(dsn, seal=SEAL, process="impatient") as store:
        talk = await Talk(store, tenant).open()
        async with store.database.transaction(tenant) as tx:
            await tx.lock(talk.id)
            with pytest.raises(StoreUnavailable):
                await talk.ask()


def agent(name: str, tenant: str, at: datetime, spec: dict[str, object]) -> AgentRecord:
    return AgentRecord(tenant, name, spec, f"digest of {spec}", at, at)


async def test_an_agent_is_replaced_but_keeps_its_birthday(store: Store, tenant: str) -> None:
    first = agent("helper", tenant, NOON, {"model": "script", "instructions": "a\0b"})
    async with store.database.transaction(tenant) as tx:
        await tx.put_agent(first)
    async with store.database.session(tenant) as session:
        assert await session.agent("helper") == first
    second = agent("helper", tenant, after(60), {"model": "other"})
    async with store.database.transaction(tenant) as tx:
        await tx.put_agent(second)
    async with store.database.transaction(tenant) as tx:
        assert await tx.agent("helper") == replace(second, created_at=NOON)
        assert await tx.agent_and_open_runs("helper", "alice") == (await tx.agent("helper"), 0)
        assert await tx.agent_and_open_runs("nobody", "alice") is None
        assert await tx.delete_agent("helper") is True
        assert await tx.delete_agent("helper") is False
        assert await tx.agent("helper") is None


async def test_agents_are_paged_newest_first(store: Store, tenant: str) -> None:
    async with store.database.transaction(tenant) as tx:
        for seconds, name in ((0, "a"), (0, "b"), (5, "c")):
            await tx.put_agent(agent(name, tenant, after(seconds), {}))
        page = await tx.agents(Page(limit=2))
        assert [record.name for record in page] == ["c", "b"]
        cursor = f"{page[-1].created_at.isoformat()}/b"
        assert [record.name for record in await tx.agents(Page(2, cursor))] == ["a"]


def key(tenant: str, principal: str, thumbprint: str) -> KeyRecord:
    return KeyRecord(
        id=new_id("key"),
        tenant=tenant,
        principal=principal,
        thumbprint=thumbprint,
        public_jwk={"kty": "EC"},
        label="lap\0top",
        created_at=NOON,
        revoked_at=None,
    )


async def test_a_key_belongs_to_one_principal_and_outlives_its_revocation(
    store: Store, tenant: str
) -> None:
    mine = key(tenant, "alice", "t1")
    async with store.database.transaction(tenant) as tx:
        await tx.lock_principal("alice")
        assert await tx.had_key("alice") is False
        assert await tx.put_key(mine) is True
        assert await tx.put_key(replace(mine, id=new_id("key"), principal="bob")) is False
        assert await tx.had_key("alice") is True
        assert await tx.revoke_key(mine.id, now=after(1)) is True
        assert await tx.revoke_key(mine.id, now=after(2)) is False
        assert await tx.key(mine.id) == replace(mine, revoked_at=after(1))
        assert await tx.had_key("alice") is True
        assert await tx.put_key(replace(mine, id=new_id("key"))) is False
    async with store.database.session(tenant + "x") as session:
        assert await session.key(mine.id) is None


async def test_a_reset_revokes_all_keys_and_opens_the_first_enrolment(
    store: Store, tenant: str
) -> None:
    async with store.database.transaction(tenant) as tx:
        for number in range(3):
            assert await tx.put_key(key(tenant, "alice", f"a{number}"))
        assert await tx.put_key(key(tenant, "bob", "b"))
        await tx.reset_keys("alice", now=after(9))
        assert await tx.had_key("alice") is False
        assert await tx.had_key("bob") is True
        newest = await tx.keys("alice", Page(limit=2))
        assert [record.thumbprint for record in newest] == ["a2", "a1"]
        (oldest,) = await tx.keys("alice", Page(limit=2, before=newest[-1].id))
        assert (oldest.thumbprint, oldest.revoked_at) == ("a0", after(9))


async def test_changes_to_one_principals_keys_come_one_after_the_other(
    store: Store, tenant: str
) -> None:
    async with store.database.transaction(tenant) as first:
        await first.lock_principal("alice")

        async def second() -> bool:
            async with store.database.transaction(tenant) as tx:
                await tx.lock_principal("alice")
                return await tx.had_key("alice")

        waiting = asyncio.ensure_future(second())
        await asyncio.wait([waiting], timeout=0.05)
        assert not waiting.done()
        await first.put_key(key(tenant, "alice", "t"))
    assert await waiting is True


async def test_the_audit_log_is_read_by_scope_and_is_no_conversation(
    store: Store, tenant: str
) -> None:
    registered = NewEvent(KeyRegistered(resource={"id": "key_1"}, by="alice"))
    await asyncio.gather(*(_audit(store, tenant, registered) for _ in range(5)))
    scope = LogScope(f"audit_{tenant}")
    async with store.database.transaction(tenant) as tx:
        events = await tx.events(scope, after=0, limit=19)
        # Each time it is written to, it is sealed.
        assert [(event.seq, event.type) for event in events] == [
            (seq, "key.registered" if seq % 2 else "log.sealed") for seq in range(1, 11)
        ]
        assert (events[-1].data["from_seq"], events[-1].data["through_seq"]) == (8, 9)
        assert await tx.head(scope) == 10
        assert await tx.conversation(scope.conversation_id) is None
        assert await tx.lock(scope.conversation_id) is None


async def _audit(store: Store, tenant: str, *events: NewEvent) -> None:
    async with store.database.transaction(tenant) as tx:
        await tx.append_audit(events, now=NOON)


async def test_nothing_is_left_of_a_transaction_that_failed(store: Store, tenant: str) -> None:
    talk = Talk(store, tenant)

    async def fail() -> None:
        async with store.database.transaction(tenant) as tx:
            await Talk(store, tenant, talk.id).open()
            await tx.lock(talk.id)
            await tx.append(talk.id, [NewEvent(KeyRegistered(resource={}, by="x"))], now=NOON)
            await tx.wake(talk.id)
            raise LookupError

    with pytest.raises(LookupError):
        await fail()
    async with store.database.session(tenant) as session:
        assert await session.head(LogScope(talk.id)) == 1
    assert not await store.everyone.pool.fetchval(
        "SELECT count(*) FROM tgq.pgqueuer WHERE payload = convert_to($1, 'UTF8')", talk.id
    )
    # The tail that was cached for the conversation is that of the committed log.
    await talk.ask()


ONCE = {
    "key": """INSERT INTO idempotency_keys (tenant, principal, key, fingerprint, created_at)
        VALUES ($1, 'p', 'k', 'f', now())""",
    "nonce": "INSERT INTO nonces (tenant, nonce, payload_sha256) VALUES ($1, 'n', 's')",
    "execution": """INSERT INTO tool_executions (tenant, conversation_id, run_id, call_id, attempt)
        VALUES ($1, 'c', $1, 'call', 1)""",
    "decision": """INSERT INTO decisions (tenant, approval_id, approver, decision, conversation_id,
        seq, caller, assurance, key_id, scope, covered_capabilities, payload_sha256, signed, at)
        VALUES ($1, $1, 'a', 'approve', 'c', 1, 'a', 'key', 'k', 'once', '{}', 's', '', now())""",
    "seq": """INSERT INTO events (tenant, conversation_id, seq, type, trust, at, data, body,
        prev_hash, hash) VALUES ($1, $1, 1, 't', 0, now(), '{}', '', '', '')""",
    "thumbprint": """INSERT INTO approver_keys (tenant, id, principal, thumbprint, public_jwk,
        label, created_at) VALUES ($1, gen_random_uuid()::text, 'p', 't', '{}', '', now())""",
}


@pytest.mark.parametrize("insert", ONCE.values(), ids=ONCE)
async def test_f89_the_database_refuses_what_may_happen_only_once(
    store: Store, tenant: str, insert: str
) -> None:
    await store.everyone.pool.execute(insert, tenant)
    with pytest.raises(asyncpg.UniqueViolationError):
        await store.everyone.pool.execute(insert, tenant)


async def test_a_mistaken_later_day_is_no_problem(store: Store, tenant: str) -> None:
    assert await use(store, tenant, now=NOON + timedelta(days=2)) is None
    assert await use(store, tenant, now=NOON) == ANSWER


@pytest.mark.parametrize("table", ["conversations", "runs", "approvals"])
async def test_f42_no_id_is_empty(store: Store, tenant: str, table: str) -> None:
    """The database itself refuses it, whoever writes."""
    refused = await store.everyone.pool.fetchval(
        "SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conname = $1",
        f"ck_{table}_id_not_empty",
    )
    assert refused == "CHECK ((id <> ''::text))"
    talk = await Talk(store, tenant).open()
    with pytest.raises(asyncpg.CheckViolationError, match="ck_conversations_id_not_empty"):
        await store.everyone.pool.execute("UPDATE conversations SET id = '' WHERE id = $1", talk.id)
