"""Wakes that a process takes ahead of the queue, which keeps them in case it does not."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio

from app.store.database import StoreDatabase
from app.store.dispatch.own_wakes import OwnWakes
from app.store.log.tails import Tails
from app.store.open import Store
from tests.support.database.postgres import Talk
from tests.support.log.seals import SEAL

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

pytestmark = [pytest.mark.postgres, pytest.mark.timeout(60)]


@pytest_asyncio.fixture(autouse=True)
async def alone(store: Store) -> None:
    """Wakes of earlier tests are nobody's any more."""
    await store.everyone.pool.execute("DELETE FROM tgq.pgqueuer")


@asynccontextmanager
async def working(
    store: Store, handle: Callable[[str], Awaitable[None]], *, has_room: bool
) -> AsyncIterator[None]:
    """A worker at the store's queue until the block ends."""
    work = store.queue.work(handle, concurrency=8, has_room=lambda: has_room)
    task = asyncio.ensure_future(work)
    await asyncio.sleep(0)
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def jobs(store: Store) -> list[str]:
    """The conversations with a job in the queue."""
    rows = await store.everyone.pool.fetch("SELECT payload FROM tgq.pgqueuer")
    return [row["payload"].decode() for row in rows]


async def test_a_worker_with_room_is_woken_at_the_commit_and_once(
    store: Store, tenant: str
) -> None:
    talk = await Talk(store, tenant).open()
    handled: asyncio.Queue[str] = asyncio.Queue()
    async with working(store, handled.put, has_room=True):
        async with store.database.transaction(tenant) as tx:
            await tx.wake(talk.id)
            assert handled.empty()
        # The job is there, in case this process goes no further.
        assert await jobs(store) == [talk.id]
        assert await handled.get() == talk.id
        while await jobs(store):
            continue
        assert handled.empty()


async def test_another_worker_leaves_it_to_the_process_that_was_woken(
    store: Store, dsn: str, tenant: str
) -> None:
    talk = await Talk(store, tenant).open()
    own: asyncio.Queue[str] = asyncio.Queue()
    others: asyncio.Queue[str] = asyncio.Queue()
    async with (
        Store.open(dsn, seal=SEAL, process="another") as another,
        working(another, others.put, has_room=True),
        working(store, own.put, has_room=True),
    ):
        for _ in range(20):
            async with store.database.transaction(tenant) as tx:
                await tx.wake(talk.id)
        assert [await own.get() for _ in range(20)] == [talk.id] * 20
        while await jobs(store):
            continue
    assert others.empty()


async def test_a_worker_without_room_leaves_it_to_the_others(
    store: Store, dsn: str, tenant: str
) -> None:
    talk = await Talk(store, tenant).open()
    handled: asyncio.Queue[str] = asyncio.Queue()
    async with (
        Store.open(dsn, seal=SEAL, process="another") as another,
        working(another, handled.put, has_room=True),
        working(store, handled.put, has_room=False),
    ):
        async with store.database.transaction(tenant) as tx:
            await tx.wake(talk.id)
        due = "SELECT execute_after <= now() FROM tgq.pgqueuer"
        assert await store.everyone.pool.fetchval(due) is not False
        assert await handled.get() == talk.id


async def test_f37_what_a_dead_process_was_to_take_is_any_worker_s_after_the_grace(
    store: Store, tenant: str
) -> None:
    talk = await Talk(store, tenant).open()
    handled: asyncio.Queue[str] = asyncio.Queue()
    wakes = OwnWakes()
    dying = StoreDatabase(
        store.pool, Tails(), seal=SEAL, own_wakes=wakes, committed=lambda *_: None
    )
    # It dies between its commit and its claim.
    with wakes.taken(lambda _: None, has_room=lambda: True):
        async with dying.transaction(tenant) as tx:
            await tx.wake(talk.id)
    async with working(store, handled.put, has_room=True):
        assert await handled.get() == talk.id


async def test_nobody_is_woken_by_what_is_rolled_back(store: Store, tenant: str) -> None:
    talk = await Talk(store, tenant).open()
    handled: asyncio.Queue[str] = asyncio.Queue()

    async def fail() -> None:
        async with store.database.transaction(tenant) as tx:
            await tx.wake(talk.id)
            raise LookupError

    async with working(store, handled.put, has_room=True):
        with pytest.raises(LookupError):
            await fail()
        assert (await jobs(store), handled.empty()) == ([], True)


def test_only_the_expected_notifications_of_a_backend_are_no_news() -> None:
    wakes = OwnWakes()
    wakes.expect(7)
    assert wakes.is_news(8)
    assert not wakes.is_news(7)
    assert wakes.is_news(7)
    wakes.expect(7)
    wakes.listen_anew()
    assert wakes.is_news(7)


def test_without_a_worker_no_wake_is_the_process_s_own() -> None:
    wakes = OwnWakes()
    seen = [wakes.have_room]
    with wakes.taken(lambda _: None, has_room=lambda: True):
        seen.append(wakes.have_room)
    with wakes.taken(lambda _: None, has_room=lambda: False):
        seen.append(wakes.have_room)
    seen.append(wakes.have_room)
    assert seen == [False, True, False, False]
