"""Wakes: part of the transaction that causes them, and handled by some worker."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from app.store.dispatch.wakes import enqueue_wakes
from app.store.open import Store
from tests.support.database.postgres import (
    NOON,
    Talk,
    after,
    approval_requested,
    completed,
    new_id,
    paused,
    resolved,
    started,
    wake,
)
from tests.support.log.seals import SEAL

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

pytestmark = [pytest.mark.postgres, pytest.mark.timeout(60)]


@asynccontextmanager
async def working(
    store: Store, handle: Callable[[str], Awaitable[None]], *, concurrency: int = 8
) -> AsyncIterator[asyncio.Task[None]]:
    task = asyncio.ensure_future(store.queue.work(handle, concurrency=concurrency))
    try:
        yield task
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def clear(store: Store) -> None:
    """Wakes of earlier tests are nobody's any more."""
    await store.everyone.pool.execute("DELETE FROM tgq.pgqueuer")


async def test_a_wake_is_handled_once_it_is_committed(store: Store, tenant: str) -> None:
    await clear(store)
    talk = await Talk(store, tenant).open()
    handled: asyncio.Queue[str] = asyncio.Queue()
    async with working(store, handled.put):
        async with store.database.transaction(tenant) as tx:
            await tx.wake(talk.id)
            await asyncio.sleep(0.05)
            assert handled.empty()
        assert await handled.get() == talk.id
        await wake(store, talk.id, "conv_2")
        assert {await handled.get(), await handled.get()} == {talk.id, "conv_2"}
    await wake(store)


async def test_a_wake_outside_of_a_transaction_is_refused(store: Store) -> None:
    async with store.everyone.pool.acquire() as connection:
        with pytest.raises(RuntimeError, match="transaction"):
            await enqueue_wakes(connection, ["conv_1"])


async def test_no_more_than_the_given_number_is_handled_at_a_time(store: Store) -> None:
    await clear(store)
    now, most = 0, 0
    full, done = asyncio.Event(), asyncio.Event()
    handled: list[str] = []

    async def handle(conversation_id: str) -> None:
        nonlocal now, most
        now += 1
        most = max(most, now)
        if now == 3:
            full.set()
        await full.wait()
        await asyncio.sleep(0)
        now -= 1
        handled.append(conversation_id)
        if len(handled) == 12:
            done.set()

    await wake(store, *(f"conv_{n}" for n in range(12)))
    async with working(store, handle, concurrency=3):
        await done.wait()
    assert most == 3


async def test_cancelling_waits_for_the_calls_in_hand(store: Store) -> None:
    await clear(store)
    begun, go_on = asyncio.Event(), asyncio.Event()
    ended: list[str] = []

    async def handle(conversation_id: str) -> None:
        begun.set()
        await go_on.wait()
        ended.append(conversation_id)

    await wake(store, "conv_1")
    async with working(store, handle) as task:
        await begun.wait()
        task.cancel()
        await asyncio.wait([task], timeout=0.05)
        assert not task.done()
        await wake(store, "conv_2")
        go_on.set()
        await asyncio.wait([task])
    assert ended == ["conv_1"]


async def test_cancelling_twice_cancels_the_calls_in_hand(store: Store) -> None:
    await clear(store)
    begun, cancelled = asyncio.Event(), asyncio.Event()

    async def handle(_: str) -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    await wake(store, "conv_1")
    async with working(store, handle) as task:
        await begun.wait()
        task.cancel()
        await asyncio.wait([task], timeout=0.05)
    assert cancelled.is_set()


async def test_two_processes_drive_every_run_once_and_in_order(
    store: Store, dsn: str, tenant: str
) -> None:
    await clear(store)
    talks = [await Talk(store, tenant).open() for _ in range(10)]
    expected = {talk.id: [await talk.ask() for _ in range(4)] for talk in talks}
    driven: dict[str, list[str]] = {talk.id: [] for talk in talks}
    done = asyncio.Event()

    def handler(mine: Store, owner: str) -> Callable[[str], Awaitable[None]]:
        async def handle(conversation_id: str) -> None:
            lease = await mine.leases.claim(conversation_id, owner=owner, ttl_s=60)
            if lease is None:
                return
            run_id = lease.run.id
            await mine.leases.append(lease, [started(run_id)], now=NOON)
            driven[conversation_id].append(run_id)
            await mine.leases.finish(lease, [completed(run_id)], now=NOON)
            if sum(map(len, driven.values())) == 40:
                done.set()

        return handle

    async with (
        Store.open(dsn, seal=SEAL, process="another") as other,
        working(store, handler(store, "a")),
        working(other, handler(other, "b")),
    ):
        await done.wait()
    assert driven == expected
    assert not set(driven) & set(await store.queue.stranded())


async def test_stranded_is_what_is_ready_without_lease_or_wake(store: Store, tenant: str) -> None:
    await clear(store)
    queued, running, waiting, woken, done = [await Talk(store, tenant).open() for _ in range(5)]
    await queued.ask()
    run_id = await running.ask()
    lease = await running.claim()
    await running.write(lease, started(run_id))
    await store.everyone.pool.execute(
        "UPDATE conversations SET lease_until = now() WHERE id = $1", running.id
    )
    approval, run_id = new_id("appr"), await waiting.ask()
    await waiting.ask()
    lease = await waiting.claim()
    requested = approval_requested(approval, run_id, waiting.id)
    await waiting.finish(lease, started(run_id), requested, paused(run_id, approval))
    run_id = await done.ask()
    await done.finish(await done.claim(), started(run_id), completed(run_id))
    await clear(store)
    await woken.ask()
    found = set(await store.queue.stranded())
    ours = {talk.id for talk in (queued, running, waiting, woken, done)}
    assert found & ours == {queued.id, running.id}


async def test_overdue_approvals_are_those_pending_past_their_time(
    store: Store, tenant: str
) -> None:
    talk = await Talk(store, tenant).open()
    run_id = await talk.ask()
    due, later, endless, settled = [new_id("appr") for _ in range(4)]
    await talk.request(
        approval_requested(due, run_id, talk.id, expires_at="2026-11-29T12:01:00.000Z"),
        approval_requested(settled, run_id, talk.id, expires_at="2026-11-29T12:01:00.000Z"),
        approval_requested(later, run_id, talk.id, expires_at="2026-11-29T12:02:00.000Z"),
        approval_requested(endless, run_id, talk.id),
        resolved(settled, run_id, "approved"),
    )
    assert (tenant, due) not in await store.queue.overdue_approvals(after(59), 1000)
    overdue = [
        item for item in await store.queue.overdue_approvals(after(60), 1000) if item[0] == tenant
    ]
    assert overdue == [(tenant, due)]
    assert len(await store.queue.overdue_approvals(after(999), 1)) == 1


async def test_keys_are_forgotten_a_day_after_their_first_use(store: Store, tenant: str) -> None:
    day = 24 * 3600
    for key, used in {"first": 0, "second": 1, "last": 60}.items():
        async with store.database.transaction(tenant) as tx:
            await tx.claim_key("alice", key, fingerprint="f", now=after(used))

    async def kept() -> list[str]:
        rows = await store.everyone.pool.fetch(
            "SELECT key FROM idempotency_keys WHERE tenant = $1 ORDER BY created_at", tenant
        )
        return [row["key"] for row in rows]

    await store.queue.forget_answers(after(day - 1), 1000)
    assert await kept() == ["first", "second", "last"]
    await store.queue.forget_answers(after(day + 1), 1000)
    assert await kept() == ["last"]


async def test_no_more_keys_are_forgotten_at_once_than_asked(store: Store, tenant: str) -> None:
    long_ago = after(-10 * 365 * 24 * 3600)
    for key in ("first", "second"):
        async with store.database.transaction(tenant) as tx:
            await tx.claim_key("alice", key, fingerprint="f", now=long_ago)
    await store.queue.forget_answers(NOON, 1)
    left = "SELECT count(*) FROM idempotency_keys WHERE tenant = $1"
    assert await store.everyone.pool.fetchval(left, tenant) == 1


async def test_nonces_are_forgotten_a_day_after_their_use_and_no_more_than_asked(
    store: Store, tenant: str
) -> None:
    """A payload holds for at most 16 minutes, so no replay meets a forgotten nonce."""
    used = """INSERT INTO nonces (tenant, nonce, payload_sha256, used_at)
        VALUES ($1, $2, 's', now() - $3::interval)"""
    for nonce, age in {"oldest": timedelta(days=900), "old": timedelta(days=899)}.items():
        await store.everyone.pool.execute(used, tenant, nonce, age)
    await store.everyone.pool.execute(used, tenant, "kept", timedelta(hours=23))
    await store.everyone.pool.execute(used, tenant, "new", timedelta(0))

    async def kept() -> list[str]:
        rows = await store.everyone.pool.fetch(
            "SELECT nonce FROM nonces WHERE tenant = $1 ORDER BY used_at", tenant
        )
        return [row["nonce"] for row in rows]

    await store.queue.forget_nonces(1)
    assert await kept() == ["old", "kept", "new"]
    await store.queue.forget_nonces(1000)
    assert await kept() == ["kept", "new"]
