"""The log of a run in memory, in which the worker process that writes it can die at any commit."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from app.log.envelope import Event, NewEvent, placed
from app.log.payload import WorkerPayload
from app.service.replay.standing import RUN_EVENTS
from tests.support.log.killed import Killed

if TYPE_CHECKING:
    from collections.abc import Callable

    from app.log.payload import Payload
    from app.policy.taint import Trust
    from app.turn.ports import Fact

RUN, CONVERSATION = "run_1", "conv_1"
_AT: Final = "2026-11-29T12:00:00.000Z"


class Moment(StrEnum):
    """Where a turn is interrupted."""

    BEFORE_COMMIT = "before a commit"
    AFTER_COMMIT = "after a commit"
    IN_TOOL = "in a tool, its effect done"
    CANCEL = "cancelled after a commit"
    AT_THE_END = "before what the turn ends with is committed"


@dataclass(frozen=True, slots=True)
class Death:
    """The end of a worker process, at the nth of such moments of a turn (from 0)."""

    moment: Moment
    at: int


@dataclass(slots=True)
class RunLog:
    """The journal of one turn, over the events that were there before it."""

    turn_id: str
    events: list[NewEvent]
    death: Death | None = None
    cancel: Callable[[], object] = bool
    commits: int = 0
    messages: int = 0
    kept: list[tuple[str, Trust]] = field(default_factory=list)

    def message_id(self) -> str:
        self.messages += 1
        return f"msg_{self.turn_id}_{self.messages}"

    async def record(self, *facts: Fact) -> None:
        at, self.commits = self.commits, self.commits + 1
        moment = self.death.moment if self.death is not None and self.death.at == at else None
        if moment is Moment.BEFORE_COMMIT:
            raise Killed
        self._append(*facts)
        if moment is Moment.AFTER_COMMIT:
            raise Killed
        if moment is Moment.CANCEL:
            self.cancel()

    def conclude(self, *facts: Fact) -> None:
        if self.death is not None and self.death.moment is Moment.AT_THE_END:
            raise Killed
        self._append(*facts)

    def _append(self, *facts: Fact) -> None:
        for fact in facts:
            turn_id = fact.turn_id or self.turn_id
            new = NewEvent(fact.payload, RUN, turn_id, fact.step, fact.trust, fact.private)
            self.events.append(new)

    async def keep_result(self, call_id: str, text: str, *, trust: Trust) -> str | None:
        self.kept.append((call_id, trust))
        return f"art_{call_id}"


def own(payload: Payload, *, turn_id: str, private: bytes | None = None) -> NewEvent:
    """An event of the service's, which no turn has stated."""
    return NewEvent(payload, RUN, turn_id, None, private=private)


def thread_of(event: NewEvent) -> str:
    """Whose event it is: the call id of a delegation, or nothing for the run itself."""
    payload = event.payload
    ref = payload.worker if isinstance(payload, WorkerPayload) else None
    return "" if ref is None else ref.call_id


def read_back(events: list[NewEvent], known: list[Event]) -> list[Event]:
    """The events that a run is folded from, as they come out of a store; `known` is added to."""
    for seq, new in enumerate(events[len(known) :], start=len(known) + 1):
        known.append(placed(new, conversation_id=CONVERSATION, seq=seq, at=_AT))
    return [event for event in known if event.type in RUN_EVENTS]
