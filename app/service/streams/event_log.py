"""Reading the log: who may read which part of it, its pages, and one event uncut (service.md 6).

A page is ascending and never waits with a session open: a database connection is for reading.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias, assert_never

from app.log.queries import LogScope, audit_scope
from app.service.reach import (
    takes_part,
    visible_conversation,
    visible_run_and_conversation,
)
from app.service.refusals import NotFound

if TYPE_CHECKING:
    from collections.abc import Sequence

    from app.log.envelope import Event
    from app.service.caller import Caller
    from app.service.ports.database import Database, Session
    from app.service.streams.wakeups import Wakeups

# Long logs of long texts: a page that has become this big ends before its limit.
PAGE_BYTES: Final = 4 * 1024 * 1024
READ_EVENTS: Final = 200


@dataclass(frozen=True, slots=True)
class RunLog:
    """The events of one run."""

    run_id: str


@dataclass(frozen=True, slots=True)
class ConversationLog:
    """The events of a conversation, of whichever run."""

    conversation_id: str


@dataclass(frozen=True, slots=True)
class AuditLog:
    """The tenant's own log."""


Subject: TypeAlias = RunLog | ConversationLog | AuditLog


@dataclass(frozen=True, slots=True)
class VisibleLog:
    """A part of the log that a caller may read; `head` is the conversation's.

    `end` is the run's terminal status and `end_seq` its last event; None and 0 while it is open.
    """

    scope: LogScope
    head: int
    takes_part: bool
    end: str | None = None
    end_seq: int = 0


@dataclass(frozen=True, slots=True)
class EventPage:
    """Ascending events; `head_seq` is the latest of the run or conversation."""

    items: Sequence[Event]
    next_after: int
    head_seq: int


async def visible_log(session: Session, caller: Caller, subject: Subject) -> VisibleLog:
    """The part of the log, if the caller may read it. Raises ScopeMissing and NotFound."""
    caller.require("admin" if isinstance(subject, AuditLog) else "runs:read")
    match subject:
        case AuditLog():
            scope = audit_scope(caller.tenant)
            return VisibleLog(scope, await session.head(scope), takes_part=False)
        case ConversationLog(conversation_id):
            conversation = await visible_conversation(session, caller, conversation_id)
            scope = LogScope(conversation_id)
            return VisibleLog(scope, conversation.head_seq, takes_part(caller, conversation))
        case RunLog(run_id):
            # Both are of one moment: what the run says of its end is never newer than the head.
            run, owner = await visible_run_and_conversation(session, caller, run_id)
            return VisibleLog(
                LogScope(run.conversation_id, run_id),
                owner.head_seq,
                takes_part(caller, owner),
                end=run.status if run.is_ended else None,
                end_seq=run.head_seq if run.is_ended else 0,
            )
        case _:
            assert_never(subject)


class EventLog:
    """The use cases that read pages of events."""

    def __init__(self, *, database: Database, wakeups: Wakeups) -> None:
        self._database = database
        self._wakeups = wakeups

    async def page(
        self, caller: Caller, subject: Subject, *, after: int, limit: int, wait_s: float = 0.0
    ) -> EventPage:
        """The events after a seq; waits up to `wait_s` seconds for a first one."""
        async with self._database.session(caller.tenant) as session:
            scope = (await visible_log(session, caller, subject)).scope
        return await self._wakeups.until(
            partial(self._read, caller.tenant, scope, after=after, limit=limit),
            lambda page: bool(page.items),
            conversation_id=scope.conversation_id,
            seconds=wait_s,
        )

    async def event(self, caller: Caller, conversation_id: str, seq: int) -> Event:
        """One event of a conversation, whole. Raises NotFound."""
        async with self._database.session(caller.tenant) as session:
            await visible_log(session, caller, ConversationLog(conversation_id))
            event = await session.event(conversation_id, seq)
        if event is None:
            raise NotFound("event")
        return event

    async def _read(self, tenant: str, scope: LogScope, *, after: int, limit: int) -> EventPage:
        events: list[Event] = []
        size, last = 0, after
        async with self._database.session(tenant) as session:
            while len(events) < limit and size < PAGE_BYTES:
                wanted = min(limit - len(events), READ_EVENTS)
                read = await session.events(scope, after=last, limit=wanted)
                events += read
                size += sum(len(event.body) for event in read)
                last = read[-1].seq if read else last
                if len(read) < wanted:
                    break
            # Read after the items, so it is never behind them.
            head = await session.head(scope)
        return EventPage(events, last, head)
