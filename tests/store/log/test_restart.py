"""Postgres goes away and comes back: nothing is lost, nothing is there twice, and work goes on."""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import suppress
from typing import TYPE_CHECKING

import asyncpg
import pytest

from app.errors import StoreUnavailable
from app.log.queries import LogScope
from app.store.log import appender
from app.store.open import Store
from app.store.schema.migrations import migrate
from app.store.server.embedded import EmbeddedPostgres
from app.trust.chain import ChainRecord, verify_chain
from tests.support.database.postgres import NOON, Talk, as_owner, completed, said, started, wake
from tests.support.database.postgres_user import Postmaster, wait_for_end
from tests.support.log.seals import SEAL

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from app.log.records import Lease
    from app.store.log.append import Answer
    from app.store.log.numbering import Batch
    from app.store.server.connections import Connection

pytestmark = [pytest.mark.postgres, pytest.mark.fault, pytest.mark.timeout(120)]


class Server:
    """A Postgres of this test's own, that it may kill."""

    def __init__(self, data_dir: Path) -> None:
        self._data_dir = data_dir
        self._uses = [EmbeddedPostgres.start(data_dir)]

    @property
    def dsn(self) -> str:
        return self._uses[0].dsn

    def kill(self) -> None:
        """End it at once, with no chance to tidy up; its processes die with it."""
        os.kill(Postmaster.of(self._data_dir).pid, signal.SIGQUIT)
        wait_for_end(self._data_dir)

    def start(self) -> None:
        self._uses.append(EmbeddedPostgres.start(self._data_dir))

    async def restart(self) -> None:
        await asyncio.to_thread(self.kill)
        await asyncio.to_thread(self.start)

    def stop(self) -> None:
        for use in self._uses:
            use.stop()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    server = Server(tmp_path_factory.mktemp("restarted") / "data")
    asyncio.run(migrate(server.dsn))
    yield server
    server.stop()


async def texts(store: Store, tenant: str, talk: Talk) -> list[str]:
    """The streamed texts of the log, after its chain was checked."""
    rows = await store.everyone.pool.fetch(
        "SELECT * FROM events WHERE conversation_id = $1 ORDER BY seq", talk.id
    )
    records = [
        ChainRecord(row["seq"], row["body"], row["private"], row["prev_hash"], row["hash"])
        for row in rows
    ]
    assert verify_chain(records) is None
    async with store.database.session(tenant) as session:
        scope = LogScope(talk.id)
        found = await session.events_of(scope, ["text.delta"])
    return [event.data["text"] for event in found]


async def available(store: Store, talk: Talk) -> str:
    """Ask for a run until the database takes it."""
    async with asyncio.timeout(60):
        while True:
            with suppress(StoreUnavailable):
                return await talk.ask()
            await asyncio.sleep(0.05)


async def test_appends_survive_a_restart_in_the_middle_of_them(server: Server, tenant: str) -> None:
    async with Store.open(server.dsn, seal=SEAL, process="appending") as store:
        talks = [await Talk(store, tenant).open() for _ in range(4)]
        runs = [await talk.ask() for talk in talks]
        leases = [await talk.claim() for talk in talks]
        stop = asyncio.Event()

        async def write(talk: Talk, run_id: str, lease: Lease) -> int:
            count = 0
            while not stop.is_set():
                await talk.write(lease, said(run_id, str(count)))
                count += 1
            return count

        writers = [
            asyncio.ensure_future(write(*each)) for each in zip(talks, runs, leases, strict=True)
        ]
        for _ in range(2):
            await talks[0].write(leases[0])
            await server.restart()
        await asyncio.gather(
            *(talk.write(lease) for talk, lease in zip(talks, leases, strict=True))
        )
        stop.set()
        counts = await asyncio.gather(*writers)
        for talk, count in zip(talks, counts, strict=True):
            assert count > 0
            assert await texts(store, tenant, talk) == [str(n) for n in range(count)]


async def test_requests_are_told_and_work_again_afterwards(server: Server, tenant: str) -> None:
    async with Store.open(server.dsn, seal=SEAL, process="requesting") as store:
        talk = await Talk(store, tenant).open()
        await asyncio.to_thread(server.kill)
        with pytest.raises(StoreUnavailable):
            await talk.ask()
        with pytest.raises(StoreUnavailable):
            await store.database.ready()
        with pytest.raises(StoreUnavailable):
            async with store.database.session(tenant) as session:
                await session.conversation(talk.id)
        await asyncio.to_thread(server.start)
        await available(store, talk)
        assert (await store.database.ready())["database"] is True


async def test_the_queue_dispatches_again_after_a_restart(server: Server, tenant: str) -> None:
    """Also while a job of the time before is still in hand."""
    async with Store.open(server.dsn, seal=SEAL, process="dispatching") as store:
        talk = await Talk(store, tenant).open()
        handled: asyncio.Queue[str] = asyncio.Queue()
        in_hand, release = asyncio.Event(), asyncio.Event()

        async def handle(conversation_id: str) -> None:
            if conversation_id == "conv_long":
                in_hand.set()
                await release.wait()
            handled.put_nowait(conversation_id)

        work = asyncio.ensure_future(store.queue.work(handle, concurrency=4))
        await wake(store, "conv_long")
        await in_hand.wait()
        await server.restart()
        await available(store, talk)
        async with asyncio.timeout(30):
            while await handled.get() != talk.id:
                pass
        release.set()
        work.cancel()
        await asyncio.wait([work])


async def test_hints_are_sent_again_after_a_restart(server: Server, tenant: str) -> None:
    heard: set[str] = set()
    async with (
        Store.open(server.dsn, seal=SEAL, process="hinting") as store,
        Store.open(server.dsn, seal=SEAL, process="hinted") as other,
    ):
        other.signals.on_head(lambda key, _: heard.add(key))
        await server.restart()
        talk = Talk(store, tenant)
        async with asyncio.timeout(60):
            while talk.id not in heard:
                talk = Talk(store, tenant)
                with suppress(StoreUnavailable):
                    await talk.open()
                await asyncio.sleep(0.1)


@pytest.mark.parametrize("committed", [True, False], ids=["committed", "not committed"])
async def test_an_append_whose_answer_was_lost_happens_once(
    store: Store, tenant: str, monkeypatch: pytest.MonkeyPatch, committed: bool
) -> None:
    talk = await Talk(store, tenant).open()
    run_id = await talk.ask()
    lease = await talk.claim()
    commit = appender._commit
    lost = 0

    async def commit_and_lose(
        connection: Connection, batches: list[Batch], *, is_pooled: bool
    ) -> dict[str, Answer]:
        nonlocal lost
        if lost < 2 and batches:
            lost += 1
            if committed:
                await commit(connection, batches, is_pooled=is_pooled)
            raise asyncpg.ConnectionDoesNotExistError("connection was closed")
        return await commit(connection, batches, is_pooled=is_pooled)

    monkeypatch.setattr(appender, "_commit", commit_and_lose)
    first = await talk.write(lease, started(run_id), said(run_id, "once"))
    assert [event.seq for event in first] == [3, 4]
    last = await talk.finish(lease, said(run_id, "only"), completed(run_id))
    assert [event.seq for event in last] == [5, 6]
    assert await texts(store, tenant, talk) == ["once", "only"]


async def test_a_lost_session_is_ended_before_its_log_is_asked(
    store: Store, tenant: str, dsn: str
) -> None:
    """Whatever the old session has not committed by then it never will."""
    talk = await Talk(store, tenant).open()
    run_id = await talk.ask()
    lease = await talk.claim()
    await talk.write(lease, started(run_id))
    async with as_owner(store) as owner:
        running = await owner.fetch(
            """SELECT pid FROM pg_stat_activity
            WHERE query LIKE '%UPDATE conversations c SET head_seq%' AND pid <> pg_backend_pid()"""
        )
        assert running
        for row in running:
            await owner.execute("SELECT pg_terminate_backend($1, 5000)", row["pid"])
    (event,) = await store.leases.append(lease, [said(run_id, "x")], now=NOON)
    assert event.seq == 4
