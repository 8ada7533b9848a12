"""The parent's ports as its worker has them: whatever goes through says whose it is."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from app.log.payload import WorkerPayload

if TYPE_CHECKING:
    from collections.abc import Sequence

    from app.log.payload import Payload, WorkerRef
    from app.policy.taint import Trust
    from app.turn.ports import DispatchMutation, DispatchRecorder, Fact, Journal, TurnEventSender
    from app.turn.stream import TurnStreamEvent


class WorkerJournal:
    """The parent's journal, for a worker: every fact says whose it is.

    The worker's end is not the turn's, so what the worker concludes with waits for `settle`.
    """

    def __init__(self, journal: Journal, worker: WorkerRef, turn_id: str) -> None:
        self._journal = journal
        self._worker = worker
        self._turn_id = turn_id
        self._concluded: list[Fact] = []

    def message_id(self) -> str:
        """A new id, as of any message of the run."""
        return self._journal.message_id()

    async def record(self, *facts: Fact) -> None:
        """Returns when the worker's facts are committed. Raises StepRefused."""
        await self._journal.record(*self._told(facts))

    def conclude(self, *facts: Fact) -> None:
        """Take the worker's last facts."""
        self._concluded.extend(self._told(facts))

    async def settle(self) -> None:
        """Make durable what the worker concluded with."""
        if self._concluded:
            await self._journal.record(*self._concluded)

    async def keep_result(self, call_id: str, text: str, *, trust: Trust) -> str | None:
        """Keep a long result whole, as any of the run's."""
        return await self._journal.keep_result(call_id, text, trust=trust)

    def _told(self, facts: Sequence[Fact]) -> list[Fact]:
        return [
            replace(fact, payload=self._signed(fact.payload), turn_id=self._turn_id)
            for fact in facts
        ]

    def _signed(self, payload: Payload) -> Payload:
        if isinstance(payload, WorkerPayload):
            return payload.model_copy(update={"worker": self._worker})
        return payload


class WorkerStream:
    """The parent's stream, for a worker."""

    def __init__(self, stream: TurnEventSender, worker: WorkerRef) -> None:
        self._stream = stream
        self._worker = worker

    async def send(self, event: TurnStreamEvent) -> None:
        """Show the event as the worker's."""
        await self._stream.send(replace(event, worker=self._worker))


class WorkerRecorder:
    """The parent's recorder of mutations, for a worker."""

    def __init__(self, recorder: DispatchRecorder, worker: WorkerRef, turn_id: str) -> None:
        self._recorder = recorder
        self._worker = worker
        self._turn_id = turn_id

    async def record(self, mutation: DispatchMutation) -> bool:
        """Whether the worker's mutation is recorded."""
        theirs = replace(mutation, worker=self._worker, turn_id=self._turn_id)
        return await self._recorder.record(theirs)
