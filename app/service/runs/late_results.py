"""Results that come after their calls have one: kept as facts of the log, and nothing more (F33).

A call that timed out, or whose run was cancelled, was settled; a server may answer it all the same.
Such a result resumes nothing, is shown to no model and is no event of its run. Which process heard
it matters to nobody: it is appended under the conversation's lock, as a request's facts are, and
what a process that ends has not heard by then is not told of.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import structlog

from app.engine.json.arguments import sha256_hex
from app.errors import StoreUnavailable
from app.log.calls import ToolAnsweredLate
from app.log.envelope import NewEvent
from app.log.queries import LogScope
from app.service.runs.settle import RESULTS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from app.log.envelope import Event
    from app.log.records import RunRecord
    from app.service.clock import Clock
    from app.service.ports.database import Database
    from app.service.streams.wakeups import Wakeups
    from app.turn.ports import ToolOutcome

# Of each tenant so many are recorded at once, for they may wait; what comes beyond that is told of
# in the process's own log alone.
MAX_AT_ONCE: Final = 64
# A batch keeps its results until those before them are there, so a late one may come before that.
SETTLED_WITHIN_S: Final = 300.0

log = structlog.get_logger("turngate.late")


@dataclass(frozen=True, slots=True)
class _Heard:
    """What is kept of a late result: not its text, which may be megabytes and wait for minutes."""

    tenant: str
    key: str
    failed: bool
    sha256: str
    size_bytes: int

    @staticmethod
    def of(tenant: str, key: str, outcome: ToolOutcome) -> _Heard:
        text = outcome.text.encode(errors="backslashreplace")
        return _Heard(tenant, key, outcome.code is not None, sha256_hex(text), len(text))


class LateResults:
    """Records what is heard late, in tasks of the block that `running` opens."""

    def __init__(self, database: Database, clock: Clock, wakeups: Wakeups) -> None:
        self._database = database
        self._clock = clock
        self._wakeups = wakeups
        self._owner: asyncio.TaskGroup | None = None
        self._recording: dict[asyncio.Task[None], str] = {}

    @asynccontextmanager
    async def running(self) -> AsyncIterator[LateResults]:
        """Record until the block ends; what is under way then is dropped."""
        async with asyncio.TaskGroup() as owner:
            self._owner = owner
            try:
                yield self
            finally:
                self._owner = None
                for task in self._recording:
                    task.cancel()

    def heard(self, tenant: str, key: str, outcome: ToolOutcome) -> None:
        """Take what the call with that idempotency key has come to after all. Never waits."""
        under_way = sum(whose == tenant for whose in self._recording.values())
        if self._owner is None or under_way >= MAX_AT_ONCE:
            log.warning("late_result.dropped", call=key)
            return
        task = self._owner.create_task(self._record(_Heard.of(tenant, key, outcome)))
        self._recording[task] = tenant
        task.add_done_callback(self._recording.pop)

    async def _record(self, heard: _Heard) -> None:
        """The root of a task: one late result's fault is its own."""
        run_id, _, call_id = heard.key.partition(":")
        try:
            result = await self._result(heard.tenant, run_id, call_id)
            if result is not None:
                await self._append(heard, result)
        except StoreUnavailable:
            log.warning("store.unavailable")
        except Exception as fault:  # noqa: BLE001 - the root of a task
            # The text of an exception may quote a result.
            log.warning("late_result.fault", call=heard.key, kind=type(fault).__name__)

    async def _result(self, tenant: str, run_id: str, call_id: str) -> Event | None:
        """The result that the call has, waiting for it; None where it is left open."""
        async with self._database.session(tenant) as session:
            run = await session.run(run_id)
        if run is None:
            return None
        return await self._wakeups.until(
            lambda: self._settled(run, call_id),
            lambda result: result is not None,
            conversation_id=run.conversation_id,
            seconds=SETTLED_WITHIN_S,
        )

    async def _settled(self, run: RunRecord, call_id: str) -> Event | None:
        async with self._database.session(run.tenant) as session:
            scope = LogScope(run.conversation_id, run.id)
            results = await session.events_of(scope, RESULTS)
        return next((one for one in results if one.data["call_id"] == call_id), None)

    async def _append(self, heard: _Heard, result: Event) -> None:
        late = ToolAnsweredLate(
            run_id=result.run_id or "",
            call_id=result.data["call_id"],
            tool=result.data["tool"],
            worker=result.data.get("worker"),
            result_seq=result.seq,
            failed=heard.failed,
            sha256=heard.sha256,
            size_bytes=heard.size_bytes,
        )
        async with self._database.transaction(heard.tenant) as tx:
            if await tx.lock(result.conversation_id) is not None:
                await tx.append(result.conversation_id, [NewEvent(late)], now=self._clock.now())
