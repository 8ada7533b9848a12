"""Hints between processes."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from app.store.dispatch.signals import StoreSignals
from app.store.open import Store
from app.store.server.connections import SteadyConnection
from tests.support.database.postgres import Talk, as_owner, said
from tests.support.log.seals import SEAL

if TYPE_CHECKING:
    from collections.abc import Sequence

    from app.log.envelope import Event

pytestmark = [pytest.mark.postgres, pytest.mark.timeout(30)]


async def test_other_processes_hear_of_heads_and_the_own_one_does_not(
    store: Store, dsn: str, tenant: str
) -> None:
    own: list[tuple[str, int]] = []
    heard: asyncio.Queue[tuple[str, int]] = asyncio.Queue()
    async with Store.open(dsn, seal=SEAL, process="listener") as other:
        store.signals.on_head(lambda key, head: own.append((key, head)))
        other.signals.on_head(lambda key, head: heard.put_nowait((key, head)))
        talk = await Talk(store, tenant).open()
        run_id = await talk.ask()
        # The listener may not have been listening yet: hints carry no promise.
        while (found := await _next(heard)) is None or found[0] != talk.id:
            await talk.request(said(run_id, "again"))
        await talk.request(said(run_id, "last"))
        async with store.database.session(tenant) as session:
            conversation = await session.conversation(talk.id)
        assert conversation
        while found != (talk.id, conversation.head_seq):
            found = await heard.get()
    assert [key for key, _ in own if key == talk.id] == []


async def _next(heard: asyncio.Queue[tuple[str, int]]) -> tuple[str, int] | None:
    try:
        async with asyncio.timeout(0.2):
            return await heard.get()
    except TimeoutError:
        return None


def test_many_heads_are_told_in_payloads_that_notify_takes(dsn: str) -> None:
    signals = StoreSignals(SteadyConnection(dsn), sender="me")
    heads = {f"conv_{n:036d}": n for n in range(1000)}
    payloads = list(signals._payloads(heads))
    assert all(len(payload.encode()) < 8000 for payload in payloads)
    items = [item for payload in payloads for item in payload.split(" ")[1:]]
    assert items == [f"{key}={head}" for key, head in heads.items()]
    assert list(signals._payloads({})) == []


async def test_a_listener_that_fails_disturbs_nobody(store: Store, tenant: str) -> None:
    heard: list[int] = []
    reported: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context))

    def fail(_key: str, _events: Sequence[Event]) -> None:
        raise LookupError

    store.signals.on_commit(fail)
    store.signals.on_commit(lambda _, events: heard.append(events[-1].seq))
    talk = await Talk(store, tenant).open()
    await talk.ask()
    await asyncio.sleep(0)
    assert heard == [1, 2]
    assert len(reported) == 2


async def test_f86_commits_of_appends_take_no_lock_that_others_wait_for(
    store: Store, tenant: str
) -> None:
    """F86: hints go out on a connection of their own, so an append's session never notifies."""
    talk = await Talk(store, tenant).open()
    run_id = await talk.ask()
    lease = await talk.claim()
    await asyncio.gather(*(talk.write(lease, said(run_id, str(n))) for n in range(50)))
    async with as_owner(store) as owner:
        sessions = await owner.fetch(
            "SELECT query FROM pg_stat_activity WHERE query LIKE '%INSERT INTO events%'"
        )
    assert sessions
    assert not any("notify" in row["query"].lower() for row in sessions)
