"""Dispatch of woken conversations: the port `Queue`, by PgQueuer on a pool of its own.

A job is a hint to try a claim: it holds a conversation's id and nothing else, so it may come twice
or late. PgQueuer never listens again once its connection is gone, so each of its managers runs
under a supervisor that builds another one.
"""

from __future__ import annotations

import asyncio
import logging
import re
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from pgqueuer.adapters.drivers.asyncpg import AsyncpgPoolDriver
from pgqueuer.qm import QueueManager
from typing_extensions import override

from app.errors import StoreUnavailable
from app.store.dispatch.wakes import ENTRYPOINT, forget_jobs, queries, queue_settings
from app.store.memory import turns as memory_turns
from app.store.rows.idempotency import KEY_LIFETIME
from app.store.server.connections import FORGETFUL, LOST, open_pool
from app.store.server.poolers import address_of
from app.store.texts import unescape

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Mapping
    from datetime import datetime

    from pgqueuer.models import Job
    from pgqueuer.ports.driver import NotifyCallback

    from app.store.dispatch.own_wakes import OwnWake, OwnWakes
    from app.store.server.connections import Pool
    from app.store.server.row_security import EveryTenant

BATCH: Final = 20
QUEUE_POOL: Final = 4
DEQUEUE_TIMEOUT: Final = timedelta(seconds=1)
HEARTBEAT_TIMEOUT: Final = timedelta(seconds=10)
STRANDED: Final = 1000
REBUILD_S: Final = 0.2
FORGET_S: Final = 0.1
_DELETED: Final = re.compile(r'"operation"\s*:\s*"delete"')

_log = logging.getLogger(__name__)

# A conversation with a wake in the queue is not stranded, only waiting for a worker.
_STRANDED: Final = """
SELECT DISTINCT r.conversation_id AS id FROM runs r
    JOIN conversations c ON c.id = r.conversation_id
WHERE r.ended_at IS NULL AND r.status IN ('queued', 'running')
    AND (c.lease_owner IS NULL OR c.lease_until < clock_timestamp())
    AND NOT EXISTS (SELECT FROM runs a WHERE a.conversation_id = c.id AND a.ended_at IS NULL
        AND a.status = 'paused')
    AND NOT EXISTS (SELECT FROM tgq.pgqueuer j
        WHERE j.payload = convert_to(c.id, 'UTF8') AND j.status = 'queued')
ORDER BY id LIMIT $1"""

_OVERDUE: Final = """
SELECT tenant, id FROM TABLE WHERE status = 'pending' AND expires_at <= $1
ORDER BY expires_at LIMIT $2"""
_OVERDUE_APPROVALS: Final = _OVERDUE.replace("TABLE", "approvals")
_OVERDUE_QUESTIONS: Final = _OVERDUE.replace("TABLE", "questions")

# A key that is being taken anew at this moment is left to whoever takes it. Materialized, since a
# plan that looked for old keys again, row by row, would find more of them than the limit.
_FORGET_ANSWERS: Final = """
WITH old AS MATERIALIZED (
    SELECT tenant, principal, key FROM idempotency_keys WHERE created_at <= $1
    ORDER BY created_at LIMIT $2 FOR UPDATE SKIP LOCKED
)
DELETE FROM idempotency_keys k USING old
WHERE k.tenant = old.tenant AND k.principal = old.principal AND k.key = old.key"""

# A payload holds for 15 minutes, and for a minute before its time; its nonce is kept for a day, by
# the clock that has dated it. Bytes that are stored are known by themselves and ask for no nonce.
_FORGET_NONCES: Final = """
WITH old AS MATERIALIZED (
    SELECT tenant, nonce FROM nonces WHERE used_at <= now() - interval '1 day'
    ORDER BY used_at LIMIT $1 FOR UPDATE SKIP LOCKED
)
DELETE FROM nonces n USING old WHERE n.tenant = old.tenant AND n.nonce = old.nonce"""


class StoreQueue:
    """The port `Queue`."""

    def __init__(
        self, dsn: str, everyone: EveryTenant, own_wakes: OwnWakes, *, role: Mapping[str, str]
    ) -> None:
        self._dsn = dsn
        self._everyone = everyone
        self._own_wakes = own_wakes
        self._role = role

    async def work(
        self,
        handle: Callable[[str], Awaitable[None]],
        *,
        concurrency: int,
        has_room: Callable[[], bool] = lambda: False,
    ) -> None:
        """Call `handle` with the id of each woken conversation until cancelled.

        What is woken in this process while it has room is handled here, ahead of the queue.
        Cancelling stops taking work at once and returns when the calls in hand have returned, which
        is the caller's to bring about; cancelling again cancels them. `handle` never raises.
        """
        slots = asyncio.Semaphore(concurrency)

        async def call(job: Job) -> None:
            async with slots:
                await handle((job.payload or b"").decode())

        async with asyncio.TaskGroup() as tasks:

            async def wake(job: Job) -> None:
                # A task of the group, which cancels it: PgQueuer, cancelled in the middle of a
                # look at the queue, would wait for it instead.
                await tasks.create_task(call(job))

            running: set[asyncio.Task[None]] = set()
            own = _OwnJobs(self._everyone.pool, handle, tasks)
            manager = None
            try:
                with self._own_wakes.taken(own.take, has_room=has_room):
                    while True:
                        manager = _Manager(wake, concurrency, self._own_wakes, self._role)
                        running.add(tasks.create_task(manager.run(self._dsn)))
                        await manager.broken.wait()
                        await asyncio.sleep(REBUILD_S)
            except asyncio.CancelledError:
                if manager is not None:
                    manager.stop()
                await asyncio.wait(running | own.in_hand)
                raise

    async def stranded(self) -> list[str]:
        """Conversations with a ready run and no live lease, for the recovery sweep."""
        async with self._everyone.borrowed() as connection:
            rows = await connection.fetch(_STRANDED, STRANDED)
        return [row["id"] for row in rows]

    async def overdue_approvals(self, now: datetime, limit: int) -> list[tuple[str, str]]:
        """(tenant, approval id) of approvals that are pending past their time."""
        return await self._overdue(_OVERDUE_APPROVALS, now, limit)

    async def overdue_questions(self, now: datetime, limit: int) -> list[tuple[str, str]]:
        """(tenant, question id) of questions that are pending past their time."""
        return await self._overdue(_OVERDUE_QUESTIONS, now, limit)

    async def forget_answers(self, now: datetime, limit: int) -> None:
        """Remove idempotency keys of any tenant whose answer nobody may ask for any more."""
        async with self._everyone.borrowed() as connection:
            await connection.execute(_FORGET_ANSWERS, now - KEY_LIFETIME, limit)

    async def forget_nonces(self, limit: int) -> None:
        """Remove nonces of any tenant whose payload can no longer be accepted."""
        async with self._everyone.borrowed() as connection:
            await connection.execute(_FORGET_NONCES, limit)

    async def forget_memory(self, before: datetime, limit: int) -> None:
        """Remove turns of any tenant that were remembered before then; the last with summaries."""
        async with self._everyone.transaction() as connection:
            await memory_turns.forget_old(connection, before, limit)

    async def _overdue(self, query: str, now: datetime, limit: int) -> list[tuple[str, str]]:
        async with self._everyone.borrowed() as connection:
            rows = await connection.fetch(query, now, limit)
        return [(unescape(row["tenant"]), row["id"]) for row in rows]


class _OwnJobs:
    """The wakes that are handled ahead of the queue, and their jobs, which are then forgotten."""

    def __init__(
        self, pool: Pool, handle: Callable[[str], Awaitable[None]], tasks: asyncio.TaskGroup
    ) -> None:
        self._pool = pool
        self._handle = handle
        self._tasks = tasks
        self._spent: list[int] = []
        self.in_hand: set[asyncio.Task[None]] = set()

    def take(self, wake: OwnWake) -> None:
        """Handle a wake in a task of its own."""
        self._start(self._wake(wake))

    async def _wake(self, wake: OwnWake) -> None:
        await self._handle(wake.conversation_id)
        if not self._spent:
            self._start(self._forget())
        self._spent.append(wake.job_id)

    async def _forget(self) -> None:
        """Forget the jobs of a moment at once. One that is not forgotten is a second wake."""
        await asyncio.sleep(FORGET_S)
        spent, self._spent = self._spent, []
        with suppress(StoreUnavailable):
            await forget_jobs(self._pool, spent)

    def _start(self, doing: Coroutine[None, None, None]) -> None:
        task = self._tasks.create_task(doing)
        self.in_hand.add(task)
        task.add_done_callback(self.in_hand.discard)


class _Manager:
    """One QueueManager with its pool. `broken` is set as soon as it can take no more work.

    It then still waits for the jobs in hand, while another manager takes new ones.
    """

    def __init__(
        self,
        wake: Callable[[Job], Awaitable[None]],
        concurrency: int,
        own_wakes: OwnWakes,
        role: Mapping[str, str],
    ) -> None:
        self.broken = asyncio.Event()
        self._wake = wake
        self._own_wakes = own_wakes
        self._role = role
        self._batch = max(1, min(BATCH, concurrency // 2))
        self._most = max(concurrency, 2)
        self._manager: QueueManager | None = None
        self._is_stopped = False

    def stop(self) -> None:
        """Take no more work; `run` returns when the jobs in hand are done."""
        self._is_stopped = True
        if self._manager is not None:
            self._manager.shutdown.set()

    async def run(self, dsn: str) -> None:
        """Work until stopped or broken; jobs in hand are always waited for."""
        try:
            # A job that was picked or done and is not known to be is a second wake, and harmless.
            pool = await open_pool(dsn, largest=QUEUE_POOL, settings={**FORGETFUL, **self._role})
        except StoreUnavailable:
            self.broken.set()
            return
        try:
            hears = not address_of(dsn).is_pooled
            news = self._own_wakes if hears else None
            await self._dispatch(_WatchedDriver(pool, self._break, news), hears=hears)
        except Exception:  # noqa: BLE001  # The root of a task: whatever ended it, the next takes over.
            _log.warning("queue.manager_ended", exc_info=True)
        finally:
            self.broken.set()
            pool.terminate()

    async def _dispatch(self, driver: AsyncpgPoolDriver, *, hears: bool) -> None:
        manager = QueueManager(queries(driver), channel=queue_settings().channel)
        manager.entrypoint(ENTRYPOINT)(self._wake)
        self._manager = manager
        if self._is_stopped:
            return
        await manager.run(
            dequeue_timeout=DEQUEUE_TIMEOUT,
            batch_size=self._batch,
            max_concurrent_tasks=self._most,
            shutdown_on_listener_failure=hears,
            heartbeat_timeout=HEARTBEAT_TIMEOUT,
            log_aggregation_interval=timedelta(0),
        )

    def _break(self) -> None:
        self.broken.set()
        self.stop()


class _WatchedDriver(AsyncpgPoolDriver):
    """PgQueuer's driver that tells when a connection was lost, the listening one above all.

    It hears of jobs that bring something to do: not of those that are deleted when they are done,
    nor of those that this process takes ahead of the queue. Where it hears nothing, behind a
    pooler, the queue is looked at every DEQUEUE_TIMEOUT.
    """

    def __init__(self, pool: Pool, lost: Callable[[], None], news: OwnWakes | None) -> None:
        super().__init__(pool)
        self._pool = pool
        self._lost = lost
        self._news = news

    @override
    async def fetch(self, query: str, *args: object) -> list[dict[str, object]]:
        try:
            return await super().fetch(query, *args)
        except LOST:
            self._lost()
            raise

    @override
    async def add_listener(self, channel: str, callback: NotifyCallback) -> None:
        news = self._news
        if news is None:
            return

        def heard(_connection: object, backend: int, _channel: str, payload: object) -> None:
            text = str(payload)
            if _DELETED.search(text) is None and news.is_news(backend):
                callback(text)

        # Not by PgQueuer's own, which does not tell whose notification it is.
        news.listen_anew()
        self._listener_connection = await self._pool.acquire()
        await self._listener_connection.add_listener(channel, heard)
        self._listener_connection.add_termination_listener(lambda _: self._lost())
