"""Claims: one worker at a time, no run out of order, and none left to nobody."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from app.errors import LeaseLost
from app.log.records import AgentRecord
from tests.support.database.postgres import (
    NOON,
    Talk,
    after,
    approval_requested,
    cancelled,
    completed,
    decided,
    new_id,
    paused,
    resolved,
    resumed,
    run_created,
    started,
)

if TYPE_CHECKING:
    from app.store.open import Store

pytestmark = pytest.mark.postgres


async def talk_with(store: Store, tenant: str, runs: int) -> tuple[Talk, list[str]]:
    talk = await Talk(store, tenant).open()
    return talk, [await talk.ask() for _ in range(runs)]


async def wakes(store: Store, conversation_id: str) -> int:
    count: int = await store.everyone.pool.fetchval(
        "SELECT count(*) FROM tgq.pgqueuer WHERE payload = convert_to($1, 'UTF8')", conversation_id
    )
    return count


async def expire(store: Store, conversation_id: str) -> None:
    await store.everyone.pool.execute(
        "UPDATE conversations SET lease_until = now() - interval '1 s' WHERE id = $1",
        conversation_id,
    )


async def test_a_claim_gives_the_oldest_run_and_takes_the_conversation(
    store: Store, tenant: str
) -> None:
    talk, (first, _) = await talk_with(store, tenant, 2)
    lease = await talk.claim()
    assert (lease.tenant, lease.conversation_id) == (tenant, talk.id)
    assert (lease.run.id, lease.run.status) == (first, "queued")
    assert await store.leases.claim(talk.id, owner="another", ttl_s=60) is None


async def test_a_lease_shows_the_agent_as_it_is_now(store: Store, tenant: str) -> None:
    talk, _ = await talk_with(store, tenant, 1)
    lease = await talk.claim()
    assert (lease.present, lease.tainted) == (None, False)
    await talk.finish(lease)
    changed = AgentRecord(tenant, "helper", {"model": "other"}, "e" * 64, NOON, after(60))
    async with store.database.transaction(tenant) as tx:
        await tx.put_agent(changed)
    assert (await talk.claim()).present == changed


async def test_without_a_ready_run_there_is_no_lease(store: Store, tenant: str) -> None:
    talk = await Talk(store, tenant).open()
    assert await store.leases.claim(talk.id, owner="w", ttl_s=60) is None
    assert await store.leases.claim("conv_none", owner="w", ttl_s=60) is None


async def test_an_expired_lease_is_claimed_by_another_who_goes_on_with_the_same_run(
    store: Store, tenant: str
) -> None:
    """F92: the run of a worker that stopped renewing is continued, and the queued one follows."""
    talk, (first, second) = await talk_with(store, tenant, 2)
    silent = await talk.claim("silent")
    await talk.write(silent, started(first))
    await expire(store, talk.id)
    lease = await talk.claim("another")
    assert (lease.run.id, lease.run.status, lease.run.attempts) == (first, "running", 1)
    with pytest.raises(LeaseLost):
        await talk.write(silent, completed(first))
    await talk.finish(lease, resumed(first), completed(first))
    assert (await talk.claim()).run.id == second


async def test_f43_a_live_lease_is_left_alone(store: Store, tenant: str) -> None:
    talk, (first,) = await talk_with(store, tenant, 1)
    lease = await talk.claim()
    await talk.write(lease, started(first))
    assert talk.id not in await store.queue.stranded()
    assert await store.leases.claim(talk.id, owner="recoverer", ttl_s=60) is None


async def test_renewing_prolongs_the_lease(store: Store, tenant: str) -> None:
    talk, _ = await talk_with(store, tenant, 1)
    lease = await talk.claim()
    await expire(store, talk.id)
    await store.leases.renew(lease, ttl_s=60)
    assert await store.leases.claim(talk.id, owner="another", ttl_s=60) is None


async def test_a_paused_run_keeps_its_place(store: Store, tenant: str) -> None:
    talk, (first, second) = await talk_with(store, tenant, 2)
    approval = new_id("appr")
    lease = await talk.claim()
    await talk.write(lease, started(first), approval_requested(approval, first, talk.id))
    await talk.finish(lease, paused(first, approval))
    assert await store.leases.claim(talk.id, owner="w", ttl_s=60) is None
    await talk.request(decided(approval, first), resolved(approval, first, "approved"))
    lease = await talk.claim()
    assert (lease.run.id, lease.run.status) == (first, "queued")
    await talk.finish(lease, resumed(first), completed(first))
    assert (await talk.claim()).run.id == second


async def test_an_interrupting_run_goes_next(store: Store, tenant: str) -> None:
    talk, (active, waiting) = await talk_with(store, tenant, 2)
    lease = await talk.claim()
    await talk.write(lease, started(active))
    interrupting = await talk.ask(on_busy="interrupt")
    async with store.database.session(tenant) as session:
        order = [run.id for run in await session.unfinished_runs(talk.id)]
    assert order == [active, interrupting, waiting]
    async with store.database.transaction(tenant) as tx:
        await tx.lock(talk.id)
        await tx.revoke_lease(talk.id)
        await tx.append(talk.id, [cancelled(active)], now=NOON)
    assert (await talk.claim()).run.id == interrupting


async def test_finishing_wakes_the_next_run_and_only_when_there_is_one(
    store: Store, tenant: str
) -> None:
    talk, (first, second) = await talk_with(store, tenant, 2)
    before = await wakes(store, talk.id)
    await talk.finish(await talk.claim(), started(first), completed(first))
    assert await wakes(store, talk.id) == before + 1
    await talk.finish(await talk.claim(), started(second), completed(second))
    assert await wakes(store, talk.id) == before + 1


async def test_a_run_that_is_asked_for_while_the_last_one_ends_is_woken(
    store: Store, tenant: str
) -> None:
    talk, (first,) = await talk_with(store, tenant, 1)
    lease = await talk.claim()
    await talk.write(lease, started(first))
    before = await wakes(store, talk.id)
    async with store.database.transaction(tenant) as tx:
        await tx.lock(talk.id)
        ending = asyncio.ensure_future(talk.finish(lease, completed(first)))
        await asyncio.wait([ending], timeout=0.05)
        assert not ending.done()
        await tx.append(talk.id, [run_created(new_id("run"))], now=NOON)
    await ending
    assert await wakes(store, talk.id) == before + 1


async def test_a_run_that_is_handed_over_is_woken_again(store: Store, tenant: str) -> None:
    talk, (first,) = await talk_with(store, tenant, 1)
    lease = await talk.claim()
    await talk.write(lease, started(first))
    before = await wakes(store, talk.id)
    assert await talk.finish(lease) == []
    assert await wakes(store, talk.id) == before + 1
    assert (await talk.claim()).run.status == "running"


async def test_a_claim_that_meets_a_release_waits_for_it(store: Store, tenant: str) -> None:
    """A run accepted while the worker lets go has its wake handled before the release commits."""
    talk, (first,) = await talk_with(store, tenant, 1)
    lease = await talk.claim()
    await talk.write(lease, started(first))
    async with store.everyone.pool.acquire() as connection:
        releasing = connection.transaction()
        await releasing.start()
        await connection.execute(
            "UPDATE conversations SET lease_owner = NULL WHERE id = $1", talk.id
        )
        claiming = asyncio.ensure_future(store.leases.claim(talk.id, owner="next", ttl_s=60))
        await asyncio.wait([claiming], timeout=0.1)
        assert not claiming.done()
        await releasing.commit()
    claimed = await claiming
    assert claimed
    assert claimed.run.id == first


async def test_a_claim_that_waited_sees_what_was_committed_meanwhile(
    store: Store, tenant: str
) -> None:
    """What it looked at before the lock is out of date: the run it saw running has ended."""
    talk, (first, second) = await talk_with(store, tenant, 2)
    lease = await talk.claim()
    await talk.write(lease, started(first))
    async with store.database.transaction(tenant) as tx:
        await tx.lock(talk.id)
        await tx.revoke_lease(talk.id)
        claiming = asyncio.ensure_future(store.leases.claim(talk.id, owner="next", ttl_s=60))
        await asyncio.wait([claiming], timeout=0.1)
        await tx.append(talk.id, [cancelled(first)], now=NOON)
    claimed = await claiming
    assert claimed
    assert claimed.run.id == second


async def test_a_claim_that_waited_for_a_pause_takes_nothing(store: Store, tenant: str) -> None:
    talk, (first, _) = await talk_with(store, tenant, 2)
    approval = new_id("appr")
    lease = await talk.claim()
    await talk.write(lease, started(first))
    async with store.database.transaction(tenant) as tx:
        await tx.lock(talk.id)
        await tx.revoke_lease(talk.id)
        claiming = asyncio.ensure_future(store.leases.claim(talk.id, owner="next", ttl_s=60))
        await asyncio.wait([claiming], timeout=0.1)
        requested = approval_requested(approval, first, talk.id)
        await tx.append(talk.id, [requested, paused(first, approval)], now=NOON)
    assert await claiming is None


async def test_f40_of_two_recoverers_one_gets_the_run(store: Store, tenant: str) -> None:
    """F40: a claim is one conditional update; a list read earlier is worth nothing."""
    talk, (first,) = await talk_with(store, tenant, 1)
    lease = await talk.claim("dead")
    await talk.write(lease, started(first))
    await expire(store, talk.id)
    assert talk.id in await store.queue.stranded() or await wakes(store, talk.id)
    claims = await asyncio.gather(
        *(store.leases.claim(talk.id, owner=f"r{n}", ttl_s=60) for n in range(8))
    )
    (won,) = [claim for claim in claims if claim is not None]
    await talk.finish(won, resumed(first), completed(first))
    assert await store.leases.claim(talk.id, owner="held", ttl_s=60) is None


async def test_many_workers_drive_every_run_once_and_in_order(store: Store, tenant: str) -> None:
    """The work of the queue without the queue: every claim that fails just ends its wake."""
    made = [await talk_with(store, tenant, 5) for _ in range(6)]
    driven: dict[str, list[str]] = {talk.id: [] for talk, _ in made}
    driving: set[str] = set()

    async def worker(name: str) -> None:
        while any(len(driven[talk.id]) < len(runs) for talk, runs in made):
            for talk, _ in made:
                lease = await store.leases.claim(talk.id, owner=name, ttl_s=60)
                if lease is None:
                    continue
                assert talk.id not in driving
                driving.add(talk.id)
                await talk.write(lease, started(lease.run.id))
                driven[talk.id].append(lease.run.id)
                driving.discard(talk.id)
                await talk.finish(lease, completed(lease.run.id))

    await asyncio.gather(*(worker(f"w{n}") for n in range(4)))
    assert driven == {talk.id: runs for talk, runs in made}


async def test_a_generation_never_comes_twice_even_if_a_crash_forgot_it(
    store: Store, tenant: str
) -> None:
    """A claim waits for no disk, so the row may fall back; the worker of then stays locked out."""
    talk, _ = await talk_with(store, tenant, 1)
    before = await store.everyone.pool.fetchval(
        "SELECT lease_generation FROM conversations WHERE id = $1", talk.id
    )
    forgotten = await talk.claim()
    await store.everyone.pool.execute(
        "UPDATE conversations SET lease_generation = $2, lease_owner = NULL, lease_until = NULL"
        " WHERE id = $1",
        talk.id,
        before,
    )
    with pytest.raises(LeaseLost):
        await store.leases.renew(forgotten, ttl_s=60)
    again = await talk.claim()
    assert again.generation > forgotten.generation
    with pytest.raises(LeaseLost):
        await store.leases.append(forgotten, [started(forgotten.run.id)], now=NOON)
