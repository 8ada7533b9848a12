"""The log as an auditor reads it: threads, batches and calls, with all that is known of each.

A thread is the run itself or one worker. Places are indexes into the log.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from app.log.calls import (
    CallGated,
    DelegateStarted,
    MessageAssistant,
    ToolCompleted,
    ToolFailed,
    ToolSettled,
    ToolStarted,
)
from app.policy.taint import Trust
from tests.turn.machine.runlog import thread_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from app.log.envelope import NewEvent
    from app.log.payload import Payload

Result = ToolCompleted | ToolFailed | ToolSettled


@dataclass(frozen=True, slots=True)
class At:
    """Something that was stated of a call: where in the log, and in which drive."""

    index: int
    drive: int
    payload: Payload
    trust: Trust


@dataclass(slots=True)
class Call:
    """One call, at its place in a batch."""

    call_id: str
    thread: str
    batch: int
    place: int
    tool: str
    emitted: int
    drive: int
    stated: list[At] = field(default_factory=list)

    @property
    def starts(self) -> list[ToolStarted]:
        return [one.payload for one in self.stated if isinstance(one.payload, ToolStarted)]

    @property
    def results(self) -> list[At]:
        return [one for one in self.stated if isinstance(one.payload, Result)]

    @property
    def has_run(self) -> bool:
        """Whether a tool gave the call its result."""
        return bool(self.results) and self.outcome is None

    @property
    def outcome(self) -> str | None:
        """How the call was settled without an execution, if it was."""
        found = (one.payload for one in self.stated if isinstance(one.payload, ToolSettled))
        return next((one.outcome for one in found), None)

    def of(self, kind: type[Payload], drive: int | None = None) -> list[At]:
        """What was stated of this kind, ever or in one drive."""
        return [
            one
            for one in self.stated
            if isinstance(one.payload, kind) and drive in {None, one.drive}
        ]


@dataclass(slots=True)
class Thread:
    """The run, or a worker: its batches, and where content from outside came into it."""

    name: str
    batches: list[list[Call]] = field(default_factory=list)
    tainted_at: int | None = None
    begun: int = 0

    def is_tainted(self, index: int) -> bool:
        """Whether the thread had met content from outside before that place."""
        return self.tainted_at is not None and self.tainted_at < index


@dataclass(slots=True)
class History:
    """Takes the log in as it grows."""

    threads: dict[str, Thread] = field(default_factory=lambda: {"": Thread("")})
    calls: dict[str, Call] = field(default_factory=dict)
    # For each drive, where in the log it began; and the first place of anything untrusted at all.
    drives: list[int] = field(default_factory=list)
    tainted_at: int | None = None
    read: int = 0

    def begin(self, events: list[NewEvent], ingests: Callable[[str], bool]) -> None:
        """A drive begins: what is untrusted anywhere in the log counts for the run by now.

        So does a result in a thread's transcript of a tool that `ingests`, as it is known now.
        """
        self.take(events)
        self.drives.append(len(events))
        root = self.threads[""]
        if root.tainted_at is None and self.tainted_at is not None:
            root.tainted_at = self.tainted_at
        for call in self.calls.values():
            thread = self.threads[call.thread]
            if thread.tainted_at is None and call.has_run and ingests(call.tool):
                thread.tainted_at = len(events) - 1

    def take(self, events: list[NewEvent]) -> None:
        """Read what is new."""
        for index in range(self.read, len(events)):
            self._take(index, events[index])
        self.read = len(events)

    def _take(self, index: int, event: NewEvent) -> None:
        payload, name = event.payload, thread_of(event)
        if isinstance(payload, DelegateStarted):
            tainted_at = index if event.trust is Trust.QUARANTINED_CONTENT else None
            begun = Thread(payload.call_id, tainted_at=tainted_at, begun=index)
            self.threads[payload.call_id] = begun
        thread = self.threads[name]
        if isinstance(payload, MessageAssistant):
            self._emitted(index, thread, payload)
        elif (call := self.calls.get(getattr(payload, "call_id", ""))) is not None:
            drive = len(self.drives) - 1
            call.stated.append(At(index, drive, payload, event.trust))
        if event.trust is Trust.QUARANTINED_CONTENT:
            self.tainted_at = index if self.tainted_at is None else self.tainted_at
            thread.tainted_at = index if thread.tainted_at is None else thread.tainted_at

    def _emitted(self, index: int, thread: Thread, message: MessageAssistant) -> None:
        parts = [part for part in message.content if part.type == "tool_call"]
        batch = [
            Call(
                part.call_id or "",
                thread.name,
                len(thread.batches),
                place,
                part.tool or "",
                index,
                len(self.drives) - 1,
            )
            for place, part in enumerate(parts)
        ]
        assert not self.calls.keys() & {call.call_id for call in batch}, "an id serves twice"
        thread.batches.append(batch)
        self.calls |= {call.call_id: call for call in batch}

    def started(self) -> Iterator[tuple[Call, At, ToolStarted]]:
        """Every start of every call."""
        for call in self.calls.values():
            for at in call.stated:
                if isinstance(at.payload, ToolStarted):
                    yield call, at, at.payload

    def gated(self) -> Iterator[tuple[Call, At, CallGated]]:
        """Every verdict of the gate."""
        for call in self.calls.values():
            for at in call.stated:
                if isinstance(at.payload, CallGated):
                    yield call, at, at.payload
