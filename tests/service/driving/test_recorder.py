"""How streamed text becomes events, and what a recorder does at a step boundary (style.md 3.10)."""

from __future__ import annotations

import asyncio

import pytest

from app.errors import LeaseLost
from app.log.envelope import NewEvent
from app.log.runs import RunStarted
from app.policy.taint import Trust
from app.service.driving.limits import TokensSpent
from app.service.driving.recorder import TurnDrained
from app.turn.ports import Fact
from app.turn.stream import ReasoningDelta, TextDelta, ToolStarted
from tests.service.driving.recording import (
    desk,
    pumping,
    step_completed,
    step_started,
    tool_started,
)
from tests.support.clock import settle
from tests.support.stepped_clock import NOON

STARTED = NewEvent(RunStarted(attempt=1, worker="w"), run_id="run_1", turn_id="turn_1")


async def test_f72_the_first_piece_is_shown_at_once() -> None:
    async with pumping(desk()) as at:
        await at.say("one ")
        assert await at.heard() == ["one "]


async def test_f72_what_follows_within_20_ms_comes_together() -> None:
    async with pumping(desk()) as at:
        await at.say("one ")
        await settle()
        await at.say("two ")
        await at.clock.let_pass(0.019)
        await at.say("three ")
        assert await at.heard() == ["one "]
        await at.clock.let_pass(0.001)
        assert await at.heard() == ["one ", "two three "]


async def test_f72_the_wait_grows_by_a_quarter_to_100_ms() -> None:
    """20, 25, 31.25, … 95.4, 100, 100 ms after the piece that began each gathering."""
    at = desk()
    waits = []
    async with pumping(at):
        for number in range(12):
            before = at.clock.monotonic()
            await at.say(f"{number} ")
            while len(await at.heard()) == number:
                await at.clock.let_pass(0.001)
            waits.append(round((at.clock.monotonic() - before) * 1000))
    assert waits == [0, 20, 25, 32, 40, 49, 62, 77, 96, 100, 100, 100]


async def test_each_step_shows_its_first_piece_at_once() -> None:
    async with pumping(desk()) as at:
        await at.say("one ")
        await at.heard()
        await at.recorder.record(step_completed(), step_started())
        await at.say("two ")
        assert await at.heard() == ["one ", "two "]


async def test_f72_an_event_holds_2_kib_at_most_and_does_not_wait_when_full() -> None:
    async with pumping(desk()) as at:
        await at.say("first")
        await settle()
        await at.say(*["x" * 512] * 5)
        assert await at.heard() == ["first", "x" * 2048]
        await at.clock.let_pass(0.1)
        assert await at.heard() == ["first", "x" * 2048, "x" * 512]


async def test_f72_a_piece_longer_than_an_event_is_split_between_characters() -> None:
    async with pumping(desk()) as at:
        await at.say("\u20ac" * 2000)
        texts = await at.heard()
        assert "".join(texts) == "\u20ac" * 2000
        assert max(len(text.encode()) for text in texts) <= 2048


async def test_f72_ten_thousand_tokens_lose_nothing() -> None:
    at = desk()
    async with pumping(at), asyncio.TaskGroup() as owner:
        said = owner.create_task(at.say(*[f"t{n} " for n in range(10_000)]))
        while not said.done():
            await at.clock.let_pass(0.001)
    await at.recorder.record(step_completed())
    texts = at.leases.texts
    assert "".join(texts) == "".join(f"t{n} " for n in range(10_000))
    assert len(texts) < 100


async def test_reasoning_and_text_never_share_an_event() -> None:
    at = desk()
    for piece in (ReasoningDelta("hm "), ReasoningDelta("so"), TextDelta("a"), ReasoningDelta("b")):
        await at.recorder.send(piece)
    await at.recorder.record()
    assert at.leases.types == ["reasoning.delta", "text.delta", "reasoning.delta"]
    assert at.leases.texts == ["hm so", "a", "b"]


async def test_the_stream_s_tool_started_is_no_event_of_its_own() -> None:
    at = desk()
    await at.recorder.send(ToolStarted("call_1_1_0", "clock_now"))
    await at.recorder.record()
    assert at.leases.appends == []


async def test_facts_take_the_text_before_them_along_in_one_commit() -> None:
    at = desk()
    await at.say("sent ")
    await at.recorder.record(step_completed(), tool_started("call_1_1_0"))
    assert [append.types for append in at.leases.appends] == [
        ["text.delta", "step.completed", "tool.started"]
    ]


async def test_text_behind_a_fact_stays_behind_it() -> None:
    async with pumping(desk()) as at:
        at.leases.opened.clear()
        async with asyncio.TaskGroup() as owner:
            owner.create_task(at.recorder.record(step_started()))
            await settle()
            await at.say("after")
            at.leases.opened.set()
        await settle()
    assert at.leases.types == ["step.started", "text.delta"]


async def test_a_fact_carries_its_step_its_tag_and_its_private_bytes() -> None:
    at = desk()
    fact = Fact(step_completed().payload, step=3, trust=Trust.QUARANTINED_CONTENT, private=b"p")
    await at.recorder.record(fact)
    event = at.leases.appends[0].events[0]
    assert (event.run_id, event.turn_id, event.step) == ("run_1", "turn_1", 3)
    assert (event.trust, event.private) == (Trust.QUARANTINED_CONTENT, b"p")


async def test_text_belongs_to_the_step_that_was_stated_last() -> None:
    at = desk()
    await at.recorder.record(Fact(step_started().payload, step=2))
    await at.say("hi")
    await at.recorder.record(Fact(step_completed().payload, step=2))
    assert [event.step for append in at.leases.appends for event in append.events] == [2, 2, 2]


async def test_staged_events_go_in_front_of_whatever_comes_first() -> None:
    at = desk()
    at.recorder.stage(STARTED, at=NOON)
    await at.say("hi")
    await at.recorder.record(step_started())
    assert at.leases.types == ["run.started", "text.delta", "step.started"]


async def test_staged_events_keep_their_time_and_take_what_follows_along() -> None:
    at = desk()
    at.recorder.stage(STARTED, at=NOON)
    await at.clock.let_pass(5)
    await at.recorder.record(step_started())
    await at.recorder.record(step_completed())
    assert [append.now for append in at.leases.appends] == [NOON, at.clock.now()]


async def test_what_is_staged_and_streamed_is_left_for_the_closing_append() -> None:
    at = desk()
    at.recorder.stage(STARTED, at=NOON)
    await at.say("hi")
    assert [event.type for event in await at.recorder.remaining()] == ["run.started", "text.delta"]
    assert await at.recorder.remaining() == []


async def test_the_last_facts_of_a_turn_are_left_for_the_closing_append() -> None:
    at = desk(max_tokens=100)
    await at.say("one ")
    at.recorder.conclude(step_completed(tokens=60), tool_started("call_1"))
    await at.heard()
    assert at.leases.appends == []
    remaining = await at.recorder.remaining()
    assert [event.type for event in remaining] == ["text.delta", "step.completed", "tool.started"]
    assert await at.recorder.remaining() == []
    assert at.recorder.executed == {"call_1"}
    assert at.limits.tokens == 60


async def test_at_most_64_pieces_run_ahead_of_the_log() -> None:
    """T142, I21: a log that stands still stops the reading of the provider."""
    at = desk()
    async with asyncio.TaskGroup() as owner:
        sending = owner.create_task(at.say(*["x"] * 66))
        await settle()
        assert not sending.done()
        await at.recorder.record(step_started())
        await sending
    assert at.leases.texts == ["x" * 64]


async def test_a_sender_that_waits_can_be_cancelled() -> None:
    at = desk()
    await at.say(*["x"] * 64)
    async with asyncio.TaskGroup() as owner:
        sending = owner.create_task(at.say("y"))
        await settle()
        sending.cancel()
    await at.recorder.record()
    assert at.leases.texts == ["x" * 64]


async def test_a_held_run_appends_no_text_but_keeps_its_facts() -> None:
    async with pumping(desk()) as at:
        at.pace.opened.clear()
        await at.say("held")
        assert await at.heard() == []
        await at.recorder.record(step_completed())
        assert at.leases.types == ["text.delta", "step.completed"]
        await at.say("more")
        assert await at.heard() == ["held"]
        at.pace.opened.set()
        await at.clock.let_pass(0.1)
        assert await at.heard() == ["held", "more"]


async def test_a_drained_turn_stops_before_its_next_step() -> None:
    at = desk()
    at.recorder.draining = True
    with pytest.raises(TurnDrained):
        await at.recorder.record(step_completed(), step_started())
    assert at.leases.types == ["step.completed"]


async def test_a_draining_turn_goes_on_within_its_step() -> None:
    at = desk()
    at.recorder.draining = True
    await at.recorder.record(tool_started("call_1_1_0"))
    assert at.leases.types == ["tool.started"]


async def test_a_turn_drained_at_its_start_has_still_begun() -> None:
    at = desk()
    at.recorder.stage(STARTED, at=NOON)
    at.recorder.draining = True
    with pytest.raises(TurnDrained):
        await at.recorder.record(step_started())
    assert at.leases.types == ["run.started"]


async def test_spent_tokens_stop_the_run_before_its_next_step() -> None:
    at = desk(max_tokens=10)
    await at.recorder.record(step_completed(tokens=4))
    await at.recorder.record(step_started())
    with pytest.raises(TokensSpent):
        await at.recorder.record(step_completed(tokens=6), step_started())
    assert at.leases.types == ["step.completed", "step.started", "step.completed"]


async def test_an_answer_that_spends_the_last_token_stands() -> None:
    at = desk(max_tokens=10)
    await at.recorder.record(step_completed(tokens=11))
    assert at.leases.types == ["step.completed"]


async def test_a_lost_lease_stops_journal_and_pump() -> None:
    at = desk()
    at.leases.lost = True
    with pytest.raises(LeaseLost):
        await at.recorder.record(step_started())
    await at.say("x")
    with pytest.raises(LeaseLost):
        await at.recorder.pump()


async def test_an_append_under_way_is_let_through_when_its_turn_is_cancelled() -> None:
    """What is in it is neither lost nor said twice by the closing append."""
    at = desk()
    at.recorder.stage(STARTED, at=NOON)
    at.leases.opened.clear()
    async with asyncio.TaskGroup() as owner:
        recording = owner.create_task(at.recorder.record(step_started()))
        await settle()
        recording.cancel()
        await settle()
        assert not recording.done()
        at.leases.opened.set()
    assert recording.cancelled()
    assert at.leases.types == ["run.started", "step.started"]
    assert await at.recorder.remaining() == []


async def test_a_cancelled_append_that_lost_its_lease_is_cancelled_all_the_same() -> None:
    at = desk()
    at.leases.opened.clear()
    async with asyncio.TaskGroup() as owner:
        recording = owner.create_task(at.recorder.record(step_started()))
        await settle()
        recording.cancel()
        at.leases.lost = True
        at.leases.opened.set()
    assert recording.cancelled()


async def test_the_calls_that_were_started_are_counted_once_each() -> None:
    at = desk()
    await at.recorder.record(tool_started("call_1_1_0"), tool_started("call_1_1_1"))
    await at.recorder.record(tool_started("call_1_1_0"))
    assert at.recorder.executed == {"call_1_1_0", "call_1_1_1"}


async def test_a_long_result_is_kept_with_its_tag_its_tool_and_its_run_s_principal() -> None:
    at = desk()
    await at.recorder.record(tool_started("call_1_1_0"))
    tag = Trust.QUARANTINED_CONTENT
    ident = await at.recorder.keep_result("call_1_1_0", "größe", trust=tag)
    (kept,) = at.leases.kept
    assert (kept.id, kept.content, kept.trust) == (ident, "größe".encode(), tag)
    assert (kept.namespace, kept.tool, kept.by) == ("results", "clock_now", "alice")
    assert (kept.filename, kept.mime) == (None, "text/plain; charset=utf-8")


async def test_a_result_that_no_artifact_can_hold_is_not_kept() -> None:
    at = desk(file_bytes=7)
    for text in ("größe!", "x" * 8):
        assert await at.recorder.keep_result("call_1_1_0", text, trust=Trust.UNSPECIFIED) is None
    assert at.leases.kept == []
    assert await at.recorder.keep_result("call_1_1_0", "größe", trust=Trust.UNSPECIFIED)


async def test_messages_have_ids_of_their_own() -> None:
    at = desk()
    first, second = at.recorder.message_id(), at.recorder.message_id()
    assert first.startswith("msg_")
    assert first != second
