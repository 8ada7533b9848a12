"""Conversations: who is in them, what was said, and who may look (service.md 2 and 4)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import orjson

from app.log.envelope import NewEvent
from app.log.queries import LogScope
from app.log.runs import ConversationCreated, ConversationUpdated
from app.service.reach import visible_conversation
from app.service.refusals import NotFound

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from pydantic import JsonValue

    from app.log.envelope import Event
    from app.log.payload import Payload
    from app.log.queries import Page
    from app.log.records import ConversationRecord
    from app.service.caller import Caller
    from app.service.clock import Clock
    from app.service.ports.database import Session, Transaction

MESSAGE_TYPES = ("message.user", "message.assistant")


@dataclass(frozen=True, slots=True)
class ConversationRequest:
    """A conversation to be opened."""

    title: str | None = None
    participants: tuple[str, ...] = ()
    metadata: dict[str, JsonValue] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a conversation; `content` are its parts as the log has them."""

    id: str
    run_id: str
    seq: int
    role: Literal["user", "assistant"]
    content: list[dict[str, Any]]
    trust: str
    at: str


class Conversations:
    """The tenant's conversations, as far as a caller reaches."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    async def create(
        self, tx: Transaction, caller: Caller, request: ConversationRequest
    ) -> ConversationRecord:
        """Open a conversation that belongs to the caller."""
        ident, now = self._clock.mint("conv"), self._clock.now()
        await tx.create_conversation(ident, now=now)
        created = ConversationCreated(
            principal=caller.principal,
            participants=tuple(dict.fromkeys(request.participants)),
            title=request.title,
            metadata=request.metadata,
        )
        return await self._append(tx, ident, created)

    async def update(
        self,
        tx: Transaction,
        caller: Caller,
        *,
        conversation_id: str,
        changed: dict[str, JsonValue],
    ) -> ConversationRecord:
        """Change title, participants or metadata; its principal alone may. Raises NotFound."""
        before = await tx.lock(conversation_id)
        if before is None or before.principal != caller.principal:
            raise NotFound("conversation")
        if not changed:
            return before
        updated = ConversationUpdated(changed=changed, by=caller.principal)
        return await self._append(tx, conversation_id, updated)

    async def read(
        self, session: Session, caller: Caller, conversation_id: str
    ) -> ConversationRecord:
        """A conversation in the caller's reach. Raises NotFound."""
        return await visible_conversation(session, caller, conversation_id)

    async def page(self, session: Session, caller: Caller, page: Page) -> list[ConversationRecord]:
        """The conversations in the caller's reach, newest first."""
        return await session.conversations(caller.reach, page)

    async def messages(
        self, session: Session, caller: Caller, *, conversation_id: str, after: int, limit: int
    ) -> list[Message]:
        """What was said after a seq, ascending; a delegated worker's words are not part of it."""
        await self.read(session, caller, conversation_id)
        found: list[Message] = []
        async for event in _spoken(session, conversation_id, after, limit):
            found.append(event)
            if len(found) == limit:
                break
        return found

    async def _append(
        self, tx: Transaction, conversation_id: str, payload: Payload
    ) -> ConversationRecord:
        await tx.append(conversation_id, [NewEvent(payload)], now=self._clock.now())
        stored = await tx.conversation(conversation_id)
        if stored is None:
            raise NotFound("conversation")
        return stored


async def _spoken(
    session: Session, conversation_id: str, after: int, limit: int
) -> AsyncIterator[Message]:
    scope = LogScope(conversation_id)
    while True:
        events = await session.events_of(scope, MESSAGE_TYPES, after=after, limit=limit)
        for event in events:
            if (message := _message(event)) is not None:
                yield message
        if len(events) < limit:
            return
        after = events[-1].seq


def _message(event: Event) -> Message | None:
    document = orjson.loads(event.body)
    data = document["data"]
    if "worker" in data:
        return None
    return Message(
        id=data["message_id"],
        run_id=document["run_id"],
        seq=event.seq,
        role="user" if event.type == "message.user" else "assistant",
        content=data["content"],
        trust=document["trust"],
        at=document["at"],
    )
