"""Conversations as a use case: messages come whole, whatever lies between them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from app.log.calls import MessageAssistant, ReplyPart
from app.log.envelope import NewEvent
from app.log.payload import UsageTotals, WorkerRef
from app.service.caller import Caller
from app.service.refusals import NotFound
from app.service.runs.conversations import Conversations
from tests.support.database.postgres import Talk, said
from tests.support.stepped_clock import SteppedClock

if TYPE_CHECKING:
    from app.store.open import Store


def reply(run_id: str, message_id: str, *, worker: bool = False) -> NewEvent:
    message = MessageAssistant(
        message_id=message_id,
        usage=UsageTotals(),
        stop="stop",
        content=(ReplyPart(type="text", text="hi"),),
        worker=WorkerRef(call_id="call_0_0", agent="w") if worker else None,
    )
    return NewEvent(message, run_id=run_id)


async def test_a_page_of_messages_reaches_over_the_words_of_workers(
    store: Store, tenant: str
) -> None:
    talk = await Talk(store, tenant).open()
    run = await talk.ask()
    workers = [reply(run, f"msg_w{number}", worker=True) for number in range(5)]
    await talk.request(reply(run, "msg_1"), *workers, said(run, "x"), reply(run, "msg_2"))
    conversations, caller = Conversations(SteppedClock()), Caller(tenant, "alice", frozenset())

    async def page(after: int, limit: int) -> list[tuple[str, int]]:
        async with store.database.session(tenant) as session:
            found = await conversations.messages(
                session, caller, conversation_id=talk.id, after=after, limit=limit
            )
        return [(message.id, message.seq) for message in found]

    assert await page(0, 2) == [("msg_1", 3), ("msg_2", 10)]
    assert await page(0, 1) == [("msg_1", 3)]
    assert await page(3, 1) == [("msg_2", 10)]
    assert await page(10, 1) == []


async def test_an_outsider_cannot_tell_a_conversation_from_none(store: Store, tenant: str) -> None:
    talk = await Talk(store, tenant).open(participants=["bob"])
    conversations = Conversations(SteppedClock())
    async with store.database.session(tenant) as session:
        bob = Caller(tenant, "bob", frozenset())
        assert (await conversations.read(session, bob, talk.id)).principal == "alice"
        eve = Caller(tenant, "eve", frozenset())
        for ident in (talk.id, "conv_0"):
            with pytest.raises(NotFound, match="no such conversation"):
                await conversations.read(session, eve, ident)
