"""What the service reads of the log, and how a request appends to it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from app.log.envelope import Event, NewEvent
    from app.log.queries import LogScope
    from app.log.records import RunRecord


class EventReads(Protocol):
    """Reads of a tenant's logs."""

    async def events(self, scope: LogScope, *, after: int, limit: int) -> list[Event]: ...
    async def event(self, conversation_id: str, seq: int) -> Event | None: ...
    async def head(self, scope: LogScope) -> int:
        """The latest seq of that run or conversation; 0 if there is none."""
        ...

    async def events_of(
        self, scope: LogScope, types: Sequence[str], *, after: int = 0, limit: int | None = None
    ) -> list[Event]:
        """Ascending events of the given types, `private` included."""
        ...

    async def run_facts(self, run: RunRecord, *, but: Sequence[str]) -> list[Event]:
        """A run's events, ascending, deltas and the types `but` left out, `private` included."""
        ...

    async def latest(self, scope: LogScope, event_type: str) -> Event | None:
        """The newest event of that type, `private` included; flat in the length of the log."""
        ...

    async def tainted_by(self, conversation_id: str, limit: int) -> list[int]:
        """Seqs of the quarantined events, newest first."""
        ...


class EventWrites(Protocol):
    """Appends that commit with the rest of a request."""

    async def append(
        self, conversation_id: str, events: Sequence[NewEvent], *, now: datetime
    ) -> list[Event]:
        """Append to a conversation locked in this block, with every projection."""
        ...

    async def append_audit(self, events: Sequence[NewEvent], *, now: datetime) -> None:
        """Append to the tenant's own log."""
        ...
