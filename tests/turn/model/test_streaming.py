"""What a turn streams, and what a slow reader does to it (turn.md 8, T142 to T145)."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest

from app.log.runs import StepStarted
from app.turn.limits import STREAM_BOUND
from app.turn.stream import ReasoningDelta, TextDelta, ToolStarted, TurnStreamEvent
from tests.support.turn.journal import KeptStream
from tests.support.turn.provider import called, final, reply, said, thought
from tests.support.turn.tools import MemoryTool
from tests.support.turn.world import World, approve, deny


class BoundedStream:
    """The channel as the service has it: a bounded queue, and an end of all forwarding."""

    def __init__(self) -> None:
        self.queue: asyncio.Queue[TurnStreamEvent] = asyncio.Queue(STREAM_BOUND)
        self.is_full = asyncio.Event()

    async def send(self, event: TurnStreamEvent) -> None:
        if self.queue.full():
            self.is_full.set()
        await self.queue.put(event)


async def test_t142_a_reader_that_stops_stops_the_reading_of_the_provider() -> None:
    tokens = [said(f"{n} ") for n in range(500)]
    world = World([reply(*tokens)])
    stream = BoundedStream()
    turn = asyncio.ensure_future(world.turn(stream_tx=stream))
    await stream.is_full.wait()
    assert world.prepared.pulled <= STREAM_BOUND + 1
    drained = 0
    while not turn.done():
        with suppress(asyncio.QueueEmpty):
            stream.queue.get_nowait()
            drained += 1
        await asyncio.sleep(0)
    assert (await turn).text == "".join(f"{n} " for n in range(500))
    assert drained + stream.queue.qsize() == 500


async def test_t143_streaming_on_and_off_give_equal_results() -> None:
    def play() -> World:
        return World(
            [
                reply(thought("hm"), said("a"), called("c1", "read", {})),
                reply(thought("so"), said("b")),
            ],
            MemoryTool("read"),
        )

    stream = KeptStream()
    silent, shown = play(), play()
    assert await silent.turn() == await shown.turn(stream_tx=stream)
    assert silent.journal.commits == shown.journal.commits
    assert stream.events == [
        ReasoningDelta("hm"),
        TextDelta("a"),
        ToolStarted("call_1_1_0", "read"),
        ReasoningDelta("so"),
        TextDelta("b"),
    ]


async def test_t143_reasoning_is_never_in_the_answer() -> None:
    world = World([reply(thought("secret plan"), said("hello"))])
    assert (await world.turn()).text == "hello"


async def test_t144_a_turn_that_pauses_has_said_everything_before_it_returns() -> None:
    world = World([reply(called("c1", "post", {}))], MemoryTool("post", asks=True))
    result = await world.turn()
    assert [one.call_id for one in result.pending_approvals] == ["call_1_1_0"]
    assert world.journal.types[-1] == "call.gated"


@pytest.mark.parametrize(
    ("decide", "events"),
    [
        pytest.param(approve, [ToolStarted("call_1_1_0", "post")], id="approved"),
        pytest.param(deny, [], id="denied"),
        pytest.param(None, [], id="pending"),
    ],
)
async def test_t145_a_start_is_shown_exactly_for_a_call_that_executes(
    decide: object, events: list[TurnStreamEvent]
) -> None:
    world = World([reply(called("c1", "post", {})), [final()]], MemoryTool("post", asks=True))
    first = await world.turn()
    (pending,) = first.pending_approvals
    decisions = [decide(pending)] if callable(decide) else []
    stream = KeptStream()
    await world.turn(approval_decisions=decisions, stream_tx=stream)
    assert stream.events == events


async def test_cancelling_closes_the_providers_stream() -> None:
    world = World([reply(*[said("x") for _ in range(100)])])
    stream = BoundedStream()
    turn = asyncio.ensure_future(world.turn(stream_tx=stream))
    await stream.is_full.wait()
    turn.cancel()
    with pytest.raises(asyncio.CancelledError):
        await turn
    assert world.prepared.closed == 1
    assert len(world.journal.of(StepStarted)) == 1


async def test_a_run_that_is_done_already_answers_without_a_model_call() -> None:
    world = World([reply(said("hello"))])
    await world.turn()
    world.crash(len(world.journal.facts))
    result = await world.turn()
    assert (result.text, result.steps, len(world.prepared.requests)) == ("hello", 0, 1)
