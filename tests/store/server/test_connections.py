"""Connections: given back whatever happens to the block that borrowed them."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from app.errors import StoreUnavailable
from app.log.queries import LogScope
from app.store.server.connections import SteadyConnection, connect, open_pool
from tests.support.database.postgres import NOON, Talk, as_owner, said

if TYPE_CHECKING:
    from app.store.open import Store

pytestmark = [pytest.mark.postgres, pytest.mark.timeout(60)]


async def test_f88_requests_cancelled_anywhere_leak_no_connection(
    store: Store, tenant: str
) -> None:
    talk = await Talk(store, tenant).open()
    run_id = await talk.ask()
    lease = await talk.claim()

    async def request(number: int) -> None:
        match number % 3:
            case 0:
                async with store.database.session(tenant) as session:
                    await session.events(LogScope(talk.id), after=0, limit=100)
            case 1:
                await talk.request(said(run_id, str(number)), said(run_id, "more"))
            case _:
                await store.leases.append(lease, [said(run_id, str(number))], now=NOON)

    tasks = [asyncio.ensure_future(request(number)) for number in range(500)]
    for number, task in enumerate(tasks):
        await asyncio.sleep(0)
        if number % 2:
            tasks[number // 2].cancel()
        if number % 5 == 0:
            task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert store.pool.get_idle_size() == store.pool.get_size()
    hanging = "SELECT count(*) FROM pg_stat_activity WHERE state LIKE 'idle in transaction%'"
    async with as_owner(store) as owner:
        assert await owner.fetchval(hanging) == 0
    async with store.database.session(tenant) as session:
        head = await session.head(LogScope(talk.id))
        events = await session.events(LogScope(talk.id), after=0, limit=1000)
    assert [event.seq for event in events] == list(range(1, head + 1))


@pytest.mark.parametrize(
    "address", ["postgresql://nobody@/x?host=/nowhere", "postgresql://u:p@127.0.0.1:1/x"]
)
async def test_a_database_that_cannot_be_reached_is_unavailable(address: str) -> None:
    with pytest.raises(StoreUnavailable):
        await connect(address)
    with pytest.raises(StoreUnavailable):
        await open_pool(address)


async def test_a_database_that_refuses_us_is_unavailable(dsn: str) -> None:
    with pytest.raises(StoreUnavailable):
        await connect(dsn.replace("postgres@", "stranger@"))


async def test_a_steady_connection_is_opened_again_and_its_old_session_ended(dsn: str) -> None:
    steady = SteadyConnection(dsn)
    first = await steady.get()
    assert await steady.get() is first
    old = first.get_server_pid()
    steady.drop()
    steady.drop()
    second = await steady.get()
    assert second is not first
    query = "SELECT count(*) FROM pg_stat_activity WHERE pid = $1"
    assert await second.fetchval(query, old) == 0
    await steady.close()
    await steady.close()


async def test_waiting_for_a_database_that_is_not_there_can_be_cancelled() -> None:
    steady = SteadyConnection("postgresql://u:p@127.0.0.1:1/x")
    waiting = asyncio.ensure_future(steady.get())
    await asyncio.wait([waiting], timeout=0.2)
    assert not waiting.done()
    waiting.cancel()
    with suppress(asyncio.CancelledError):
        await waiting
    await steady.close()
