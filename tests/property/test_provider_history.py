"""Wherever a log ends, what a vendor is sent of it is a history that the vendor takes."""

from __future__ import annotations

import asyncio
from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic_ai import messages as wire

from app.engine.messages import UserMessage, UserText
from app.log.calls import MessageAssistant
from app.providers.transcript import vendor_messages
from app.service.replay.history import HISTORY_EVENTS, fold_history
from app.service.runs.settle import CALL_EVENTS, open_calls
from app.turn.result import EndedBy
from tests.support.log.logbook import Logbook, malformed_call, tool_call
from tests.support.turn.provider import called, reply, said
from tests.support.turn.tools import EGRESS, POST, READ, WRITE, MemoryTool
from tests.support.turn.world import World, approve

if TYPE_CHECKING:
    from collections.abc import Sequence

    from app.engine.messages import Message, ToolCall
    from app.log.envelope import Event

VENDORS = ("openai", "anthropic", "google")


def check_acceptable(messages: Sequence[Message], vendor: str) -> None:
    """What the strictest of the vendors asks; F52 and F53 are the two directions of a pair."""
    sent = vendor_messages(messages, vendor)
    kinds = [message.kind for message in sent]
    assert kinds[0] == kinds[-1] == "request", "F54: the model's own word comes first or last"
    assert all(before != after for before, after in pairwise(kinds))
    waiting: list[str] = []
    used: Counter[str] = Counter()
    for message in sent:
        if isinstance(message, wire.ModelResponse):
            assert message.parts, "a message of nothing"
            waiting = [p.tool_call_id for p in message.parts if isinstance(p, wire.ToolCallPart)]
            used.update(waiting)
            continue
        leading = message.parts[: len(waiting)]
        results = [p.tool_call_id for p in leading if isinstance(p, wire.ToolReturnPart)]
        assert results == waiting, "F52: a call without its result right behind it"
        rest = message.parts[len(waiting) :]
        assert not any(isinstance(p, wire.ToolReturnPart) for p in rest), "F53: without its call"
    assert max(used.values(), default=1) == 1


CALLS = st.tuples(
    st.sampled_from(["read", "write", "fetch", "post", "nope"]),
    st.sampled_from(['{"n":1}', '{"n":2}', "{", "{}"]),
)
BATCHES = st.lists(st.lists(CALLS, min_size=1, max_size=4), min_size=1, max_size=3)


async def to_the_end(world: World, turns: int) -> None:
    """Drive so many turns at most, and approve whatever is asked in between."""
    result = await world.turn()
    while result.ended_by is EndedBy.PAUSE and world.turns < turns:
        decisions = [approve(one, turn_id=world.turn_id) for one in result.pending_approvals]
        result = await world.turn(approval_decisions=decisions)


def world_of(batches: Sequence[Sequence[tuple[str, str]]]) -> World:
    emitted = [
        reply(*[called("c1", tool, text, position=at) for at, (tool, text) in enumerate(calls)])
        for calls in batches
    ]
    # After a crash the model is asked again, so it has its last word at hand more than once.
    return World(
        [*emitted, *[reply(said("ok")) for _ in range(20)]],
        MemoryTool("read", READ),
        MemoryTool("write", WRITE),
        MemoryTool("fetch", EGRESS),
        MemoryTool("post", POST, asks=True),
    )


@pytest.mark.parametrize("vendor", VENDORS)
@given(batches=BATCHES, data=st.data())
def test_f52_a_run_that_goes_on_after_any_prefix_asks_with_a_sound_history(
    vendor: str, batches: list[list[tuple[str, str]]], data: st.DataObject
) -> None:
    """F53, F54: whatever the worker before left open."""
    world = world_of(batches)
    asyncio.run(to_the_end(world, turns=10))
    types = world.journal.types
    last_word = len(types) - 1 - types[::-1].index(MessageAssistant.TYPE)
    world.crash(data.draw(st.integers(0, last_word), label="facts kept"))
    world.asked = {}
    asyncio.run(to_the_end(world, turns=20))
    for request in world.prepared.requests:
        check_acceptable(request.messages, vendor)


ANSWERS = st.sampled_from(["completed", "failed", "settled", "started", "open"])
REPLIES = st.lists(
    st.tuples(st.sampled_from(["", "let me see"]), st.lists(ANSWERS, max_size=4)), max_size=4
)


def one_call(number: int, is_sound: bool) -> ToolCall:
    return (tool_call if is_sound else malformed_call)(f"call_0_{number % 2}")


def told(log: Logbook, replies: Sequence[tuple[str, Sequence[str]]], is_sound: bool) -> None:
    """A run's log in which only the last reply may have open calls."""
    log.said("do it")
    log.started()
    for at, (text, answers) in enumerate(replies, start=1):
        log.step_started()
        calls = [one_call(number, is_sound) for number, _ in enumerate(answers)]
        if not calls and not text:
            log.cut_off("")
            continue
        for call_id, answer in zip(log.reply(*calls, text=text), answers, strict=True):
            is_last = at == len(replies)
            if answer in {"completed", "failed", "settled"}:
                getattr(log, answer)(call_id)
            elif not is_last:
                log.completed(call_id)
            elif answer == "started":
                log.tool_started(call_id)


def of_types(log: Logbook, types: Sequence[str]) -> list[Event]:
    return [event for event in log.events if event.type in types]


@pytest.mark.parametrize("vendor", VENDORS)
@given(replies=REPLIES, is_sound=st.booleans(), data=st.data())
def test_f53_the_run_after_one_that_was_cancelled_anywhere_has_a_sound_history(
    vendor: str, replies: list[tuple[str, list[str]]], is_sound: bool, data: st.DataObject
) -> None:
    """F52, F54: what was open is settled, and then the next run is said."""
    log = Logbook()
    told(log, replies, is_sound)
    del log.events[data.draw(st.integers(2, len(log.events)), label="events kept") :]
    for call in open_calls(of_types(log, CALL_EVENTS)):
        log.settled(call.call_id, outcome="interrupted" if call.started else "cancelled")
    folded = fold_history(of_types(log, HISTORY_EVENTS), before_run="run_2")
    prompt = UserMessage(content=(UserText(text="and now?"),))
    check_acceptable([*(one.message for one in folded), prompt], vendor)
