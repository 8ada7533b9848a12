"""The appender: what it groups, what it keeps apart, and what a fault may touch."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import asyncpg
import pytest

from app.errors import StoreUnavailable
from app.log.envelope import NewEvent
from app.log.queries import LogScope
from app.log.runs import TextDelta
from app.store.open import Store
from tests.support.database.postgres import (
    NOON,
    Talk,
    completed,
    run_created,
    said,
    somebody_waits,
    started,
)
from tests.support.log.seals import SEAL

if TYPE_CHECKING:
    from collections.abc import Sequence

    from app.log.envelope import Event
    from app.log.records import Lease

pytestmark = pytest.mark.postgres


async def talks(store: Store, tenant: str, count: int) -> list[tuple[Talk, str, Lease]]:
    made = []
    for _ in range(count):
        talk = await Talk(store, tenant).open()
        run_id = await talk.ask()
        made.append((talk, run_id, await talk.claim()))
    return made


async def transactions(store: Store) -> int:
    count: int = await store.everyone.pool.fetchval(
        "SELECT count(DISTINCT xmin::text) FROM events WHERE type = 'text.delta'"
    )
    return count


async def test_what_waits_together_is_committed_together(store: Store, tenant: str) -> None:
    made = await talks(store, tenant, 20)
    before = await transactions(store)
    await asyncio.gather(*(talk.write(lease, said(run, "x")) for talk, run, lease in made))
    assert await transactions(store) - before <= 2


async def test_one_refused_append_fails_alone(store: Store, tenant: str) -> None:
    """T139."""
    made = await talks(store, tenant, 7)
    taken = made[0][1]
    outcomes = await asyncio.gather(
        *(
            talk.write(lease, run_created(taken) if index == 3 else said(run, "x"))
            for index, (talk, run, lease) in enumerate(made)
        ),
        return_exceptions=True,
    )
    refused = [index for index, outcome in enumerate(outcomes) if not isinstance(outcome, list)]
    assert refused == [3]
    assert isinstance(outcomes[3], asyncpg.UniqueViolationError)
    # Nothing of the refused events is left, and their conversation takes the next ones.
    (event,) = await made[3][0].write(made[3][2], said(made[3][1], "next"))
    assert event.seq == 3


async def test_an_event_that_cannot_be_written_fails_alone(store: Store, tenant: str) -> None:
    made = await talks(store, tenant, 4)
    outcomes = await asyncio.gather(
        *(
            talk.write(lease, said(run, "\ud800" if index == 2 else "x"))
            for index, (talk, run, lease) in enumerate(made)
        ),
        return_exceptions=True,
    )
    assert [isinstance(outcome, TypeError) for outcome in outcomes] == [False, False, True, False]
    (event,) = await made[2][0].write(made[2][2], said(made[2][1], "next"))
    assert event.seq == 3


async def test_a_locked_conversation_holds_up_no_other(store: Store, tenant: str) -> None:
    (locked, locked_run, locked_lease), (free, free_run, free_lease) = await talks(store, tenant, 2)
    async with store.database.transaction(tenant) as tx:
        await tx.lock(locked.id)
        waiting = [
            asyncio.ensure_future(locked.write(locked_lease, said(locked_run, text)))
            for text in ("first", "second")
        ]
        async with asyncio.timeout(5):
            for _ in range(3):
                await free.write(free_lease, said(free_run, "x"))
        assert not any(task.done() for task in waiting)
    seqs = [event.seq for events in await asyncio.gather(*waiting) for event in events]
    assert seqs == [3, 4]


async def test_a_group_that_waits_holds_up_no_other(store: Store, tenant: str) -> None:
    (held, held_run, held_lease), (free, free_run, free_lease) = await talks(store, tenant, 2)
    async with store.everyone.pool.acquire() as connection, connection.transaction():
        await connection.execute("SELECT FROM runs WHERE id = $1 FOR UPDATE", held_run)
        waiting = [
            asyncio.ensure_future(held.write(held_lease, event))
            for event in (started(held_run), said(held_run, "second"))
        ]
        await somebody_waits(store)
        async with asyncio.timeout(5):
            for _ in range(3):
                await free.write(free_lease, said(free_run, "x"))
        assert not any(task.done() for task in waiting)
    seqs = [event.seq for events in await asyncio.gather(*waiting) for event in events]
    assert seqs == [3, 4]


async def test_much_that_waits_is_divided(store: Store, tenant: str) -> None:
    made = await talks(store, tenant, 4)
    before = await transactions(store)
    await asyncio.gather(*(talk.write(lease, *[said(run, "x")] * 40) for talk, run, lease in made))
    assert await transactions(store) - before == 2


async def test_appends_of_one_run_keep_their_order(store: Store, tenant: str) -> None:
    ((talk, run, lease),) = await talks(store, tenant, 1)
    written = await asyncio.gather(*(talk.write(lease, said(run, str(n))) for n in range(30)))
    assert [event.data["text"] for (event,) in written] == [str(n) for n in range(30)]
    assert [event.seq for (event,) in written] == list(range(3, 33))


async def test_what_follows_a_release_is_refused(store: Store, tenant: str) -> None:
    ((talk, run, lease),) = await talks(store, tenant, 1)
    outcomes = await asyncio.gather(
        talk.write(lease, started(run)),
        talk.finish(lease, completed(run)),
        talk.write(lease, said(run, "late")),
        return_exceptions=True,
    )
    assert [type(outcome).__name__ for outcome in outcomes] == ["list", "list", "LeaseLost"]


async def test_a_cancelled_caller_appends_nothing_that_had_not_begun(
    store: Store, tenant: str
) -> None:
    ((talk, run, lease),) = await talks(store, tenant, 1)
    task = asyncio.ensure_future(talk.write(lease, said(run, "never")))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    (event,) = await talk.write(lease, said(run, "next"))
    assert (event.seq, event.data["text"]) == (3, "next")


async def test_a_large_append_is_one_commit(store: Store, tenant: str) -> None:
    ((_, run, lease),) = await talks(store, tenant, 1)
    events: Sequence[Event] = await store.leases.append(
        lease, [NewEvent(TextDelta(text="x" * 100), run_id=run)] * 1200, now=NOON
    )
    assert events[-1].seq == 1202


async def test_events_are_told_after_their_commit_and_before_their_caller_goes_on(
    store: Store, tenant: str
) -> None:
    ((talk, run, lease),) = await talks(store, tenant, 1)
    heard: list[tuple[str, list[int]]] = []
    store.signals.on_commit(lambda key, events: heard.append((key, [e.seq for e in events])))
    await talk.write(lease, said(run, "x"), said(run, "y"))
    await talk.request(said(run, "z"))
    await asyncio.sleep(0)
    assert heard == [(talk.id, [3, 4]), (talk.id, [5])]


async def test_who_still_waits_when_the_store_closes_is_told(
    store: Store, dsn: str, tenant: str
) -> None:
    async with store.database.transaction(tenant) as tx:
        async with Store.open(dsn, seal=SEAL, process="closing") as closing:
            ((talk, run, lease),) = await talks(closing, tenant, 1)
            await tx.lock(talk.id)
            waiting = asyncio.ensure_future(talk.write(lease, said(run, "x")))
            await asyncio.wait([waiting], timeout=0.05)
        with pytest.raises(StoreUnavailable):
            await waiting


async def test_a_cancelled_caller_disturbs_no_other(store: Store, tenant: str) -> None:
    ((talk, run, lease), (other, other_run, other_lease)) = await talks(store, tenant, 2)
    first = asyncio.ensure_future(talk.write(lease, said(run, "a")))
    second = asyncio.ensure_future(other.write(other_lease, said(other_run, "b")))
    await asyncio.sleep(0)
    first.cancel()
    (event,) = await second
    assert event.seq == 3
    async with store.database.session(tenant) as session:
        assert await session.head(LogScope(talk.id)) == 2
