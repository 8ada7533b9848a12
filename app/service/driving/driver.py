"""The run driver: from a lease to the event that pauses or ends the run.

It folds the log into what a turn needs, drives the turn, and closes it. Nothing is held while a run
waits for people: the closing append frees the lease. Whatever interrupts a turn, the log says where
the next one goes on.
"""

from __future__ import annotations

import asyncio
import traceback
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, TypeVar

import structlog

from app.errors import LeaseLost, StoreUnavailable
from app.ids import Identity
from app.log.catalogue import UnknownEventType
from app.log.envelope import NewEvent
from app.log.queries import Page, Reach
from app.log.runs import RunCompleted, RunFailed
from app.service.approvals.asking import TAINTED_BY, Background
from app.service.artifacts.use_cases import ARTIFACT_BYTES
from app.service.context.assembly import CannotStart
from app.service.context.remembering import remember, remembered_turn
from app.service.driving.closing import closing, failed
from app.service.driving.drive import Drive
from app.service.driving.lease_keeping import LeaseKeeper
from app.service.driving.limits import DeadlinePassed, RunLimits, TokensSpent
from app.service.driving.opening import attempt_began, opening
from app.service.driving.recorder import TurnDrained, TurnRecorder
from app.service.grants.live import LiveGrants
from app.service.grants.offers import REMEMBERED
from app.service.replay.standing import stalled_turns
from app.service.runs.settle import settlements
from app.turn.result import EndedBy
from app.turn.run import run_turn

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from app.log.records import Lease, RunRecord
    from app.runctx.ports import MemoryStore
    from app.service.clock import Clock
    from app.service.driving.loading import Loaded, Loader
    from app.service.driving.recorder import Pace
    from app.service.ports.database import Database, Session
    from app.service.ports.leases import Leases
    from app.turn.result import TurnResult

RECOVERIES: Final = 5

_T = TypeVar("_T")

log = structlog.get_logger("turngate.driver")


@dataclass(frozen=True, slots=True)
class DriverSettings:
    """Who drives, how long a lease lasts, and the deployment's caps on steps and on a file."""

    worker: str
    lease_ttl_s: float
    max_steps: int | None = None
    file_bytes: int = ARTIFACT_BYTES


class Driver:
    """Drives one leased run at a time; any number of drives may be under way."""

    def __init__(
        self,
        *,
        database: Database,
        leases: Leases,
        loader: Loader,
        clock: Clock,
        pace: Pace,
        settings: DriverSettings,
    ) -> None:
        self._database = database
        self._leases = leases
        self._loader = loader
        self._clock = clock
        self._pace = pace
        self._settings = settings
        self.keeper = LeaseKeeper(leases, clock, ttl_s=settings.lease_ttl_s)
        self._recorders: set[TurnRecorder] = set()
        self._draining = False

    def drain(self) -> None:
        """Let every turn stop at its next step boundary; the runs go on elsewhere."""
        self._draining = True
        for recorder in self._recorders:
            recorder.draining = True

    async def claim(self, conversation_id: str) -> Lease | None:
        """Take a conversation that was woken, if there is something to drive in it."""
        return await self._leases.claim(
            conversation_id, owner=self._settings.worker, ttl_s=self._settings.lease_ttl_s
        )

    async def release(self, lease: Lease) -> None:
        """Leave a claimed run to other workers, as if it had been woken just now."""
        with suppress(LeaseLost, StoreUnavailable):
            await self._leases.finish(lease, [], now=self._clock.now())

    async def drive(self, lease: Lease) -> None:
        """Drive a leased run until it pauses, ends, or is handed over. Cancelling hands it over."""
        told = log.bind(run=lease.run.id, conversation=lease.conversation_id)
        try:
            await self._attempt(lease)
        except LeaseLost:
            told.info("lease.lost", generation=lease.generation)
        except StoreUnavailable:
            # The lease runs out, and the sweep hands the run to whoever reaches the database.
            told.warning("store.unavailable")
        except UnknownEventType as unknown:
            # A later release has been at it and is to go on with it; the lease runs out meanwhile.
            told.error("run.unknown_event", type=unknown.event_type)
        except asyncio.CancelledError:
            await self.release(lease)
            raise
        except Exception as fault:  # noqa: BLE001 - the root of a task: one run's fault is its own
            # The text of an exception may quote arguments, so only its kind and place are logged.
            place = traceback.extract_tb(fault.__traceback__)[-1]
            at = f"{place.filename}:{place.lineno}"
            told.error("run.fault", kind=type(fault).__name__, at=at)

    async def _attempt(self, lease: Lease) -> None:
        """Drive, unless that has got nowhere too often. An attempt that fails is counted."""
        try:
            if await self._is_hopeless(lease):
                message = f"no progress in {RECOVERIES} recoveries in a row"
                await self._end_by_force(lease, [], "recovery_exhausted", message)
            else:
                await self._drive(lease)
        except (LeaseLost, StoreUnavailable, UnknownEventType):
            raise
        except Exception:
            await self._count(lease)
            raise

    async def _is_hopeless(self, lease: Lease) -> bool:
        if lease.run.attempts <= RECOVERIES:
            return False
        async with self._database.session(lease.tenant) as session:
            return await stalled_turns(session, lease.run) > RECOVERIES

    async def _count(self, lease: Lease) -> None:
        """See that the log counts an attempt that failed before its first append.

        The lease runs out, another attempt follows, and after five of them the run fails.
        """
        async with self._database.session(lease.tenant) as session:
            run = await session.run(lease.run.id)
        if run is not None and run.attempts == lease.run.attempts:
            began = attempt_began(lease, worker=self._settings.worker)
            await self._leases.append(lease, [began], now=self._clock.now())

    async def _drive(self, lease: Lease) -> None:
        try:
            loaded = await self._loaded(lease)
        except CannotStart as error:
            began = attempt_began(lease, worker=self._settings.worker)
            await self._end_by_force(lease, [began], error.code, str(error))
            return
        drive = Drive(lease, self._clock.mint("turn"), self._clock.now(), loaded)
        limits = RunLimits.of(
            drive.bound.spec,
            usage=lease.run.usage,
            active_s=drive.standing.active.seconds,
            file_bytes=self._settings.file_bytes,
        )
        recorder = TurnRecorder(
            self._leases,
            lease,
            turn_id=drive.turn_id,
            limits=limits,
            clock=self._clock,
            pace=self._pace,
        )
        first = opening(lease, loaded, turn_id=drive.turn_id, worker=self._settings.worker)
        recorder.stage(*first, at=drive.began)
        recorder.draining = self._draining
        self._recorders.add(recorder)
        try:
            await self._turn(drive, recorder, limits.seconds_left())
        finally:
            self._recorders.discard(recorder)

    async def _loaded(self, lease: Lease) -> Loaded:
        """What the turn starts from; the lease is kept while servers are asked for their tools."""
        async with self._database.session(lease.tenant) as session:
            loading = self._loader.load(session, lease, now=self._clock.now())
            return await _beside(self.keeper.heartbeat(lease), to=loading)

    async def _turn(self, drive: Drive, recorder: TurnRecorder, seconds: float | None) -> None:
        """Drive the turn with its text pump, heartbeat and deadline beside it; then close it."""
        try:
            result = await _beside(
                recorder.pump(),
                self.keeper.heartbeat(drive.lease),
                self.keeper.watch(drive.lease),
                self._deadline(seconds),
                to=self._result(drive, recorder),
            )
        except TurnDrained:
            await self._finish(drive.lease, await recorder.remaining())
        except TokensSpent:
            spent = drive.bound.spec.limits.max_tokens
            await self._fail(drive, recorder, "constraints_conflict", f"spent {spent} tokens")
        except DeadlinePassed:
            spent = drive.bound.spec.limits.deadline_s
            await self._fail(drive, recorder, "deadline_exceeded", f"worked for {spent} s")
        else:
            await self._close(drive, recorder, result)

    async def _result(self, drive: Drive, recorder: TurnRecorder) -> TurnResult:
        transcript = drive.standing.transcript()
        options = drive.options(
            recorder,
            self._loader.statements,
            clock=self._clock,
            default_max_steps=self._settings.max_steps,
            steps_before=transcript.steps_before,
        )
        register = LiveGrants(self._database, drive.lease.tenant, self._clock)
        options = replace(options, grant_register=register)
        return await run_turn(
            drive.bound.provider,
            drive.bound.executor,
            drive.bound.agent,
            transcript,
            options,
            run_id=drive.lease.run.id,
            turn_id=drive.turn_id,
            journal=recorder,
        )

    async def _close(self, drive: Drive, recorder: TurnRecorder, result: TurnResult) -> None:
        run = drive.lease.run
        left_open: list[NewEvent] = []
        background = Background()
        if result.ended_by is EndedBy.FAILURE:
            # What the turn stated last must be in the log that says which calls are open.
            await recorder.record()
        async with self._database.session(drive.lease.tenant) as session:
            if result.ended_by is EndedBy.FAILURE:
                left_open = await settlements(session, run)
            if result.pending_approvals and result.met_taint:
                background = await _background(session, run)
        try:
            events = closing(drive.turn(recorder), result, background=background, clock=self._clock)
        except Exception:
            # What the turn came to stands, whatever is wrong with its end.
            await recorder.record()
            raise
        if (store := drive.bound.memory) is not None and isinstance(
            answered := events[-1].payload, RunCompleted
        ):
            # A worker that takes over must find the answer that was remembered.
            await recorder.record()
            events[-1:-1] = [await self._remembered(store, drive, answered, result.met_taint)]
        await self._finish(drive.lease, [*await recorder.remaining(), *left_open, *events])

    async def _remembered(
        self, store: MemoryStore, drive: Drive, answered: RunCompleted, tainted: bool
    ) -> NewEvent:
        """The fact of the memory write; the lease is kept meanwhile."""
        run, who = drive.lease.run, drive.identity
        turn = remembered_turn(
            run,
            drive.standing.user_text,
            answered=answered.answer.answer,
            at=self._clock.now(),
            is_tainted=tainted,
        )
        writing = remember(store, who, turn)
        written = await _beside(self.keeper.heartbeat(drive.lease), to=writing)
        return NewEvent(written, run_id=run.id, turn_id=drive.turn_id)

    async def _fail(self, drive: Drive, recorder: TurnRecorder, code: str, message: str) -> None:
        await self._end_by_force(drive.lease, await recorder.remaining(), code, message)

    async def _end_by_force(
        self, lease: Lease, events: list[NewEvent], code: str, message: str
    ) -> None:
        """End the run without an answer: what it left open is settled first."""
        async with self._database.session(lease.tenant) as session:
            events += await settlements(session, lease.run)
            run = await session.run(lease.run.id)
        usage = lease.run.usage if run is None else run.usage
        events.append(failed(lease.run, None, code=code, message=message, usage=usage))
        await self._finish(lease, events)

    async def _finish(self, lease: Lease, events: list[NewEvent]) -> None:
        await self._leases.finish(lease, events, now=self._clock.now())
        if events and isinstance(events[-1].payload, RunFailed):
            # An earlier worker may have had an answer, stored the turn, and died.
            run = lease.run
            identity = Identity(run.tenant, run.principal, run.conversation_id)
            async with self._database.transaction(lease.tenant) as tx:
                await tx.forget_memory(identity, run=run.id)

    async def _deadline(self, seconds: float | None) -> None:
        if seconds is not None:
            await self._clock.sleep(seconds)
            raise DeadlinePassed


async def _background(session: Session, run: RunRecord) -> Background:
    """What tainted a run that asks, and what of the like was approved before."""
    conversation = run.conversation_id
    wanted = {"conversation_id": conversation, "status": "approved"}
    return Background(
        await session.tainted_by(conversation, TAINTED_BY),
        await session.approvals(Reach(run.principal), Page(REMEMBERED), filters=wanted),
    )


async def _beside(*others: Coroutine[Any, Any, None], to: Coroutine[Any, Any, _T]) -> _T:
    """What `to` comes to, or the first exception of it or of the others, which end with it."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(other) for other in others]
            try:
                return await to
            finally:
                for task in tasks:
                    task.cancel()
    except BaseExceptionGroup as failed:
        raise failed.exceptions[0] from None
