"""The step cap and the closing completion (turn.md 3.8, T3 to T6)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from app.engine.messages import AssistantMessage, ToolCall
from app.log.calls import MessageAssistant
from app.log.runs import StepDiscarded
from app.turn.ports import FailureKind, ProviderError
from app.turn.result import EndedBy
from app.turn.transcript import TurnSoFar
from tests.support.turn.provider import called, final, reply, said, thought
from tests.support.turn.tools import EGRESS, MemoryTool
from tests.support.turn.world import World, deny

if TYPE_CHECKING:
    from app.engine.streaming.items import StreamItem


async def test_t3_a_cap_without_text_is_followed_by_one_closing_call_without_tools_and_search() -> (
    None
):
    world = World(
        [reply(thought("hm"), called("c1", "read", {})), reply(said("that is all"))],
        MemoryTool("read"),
    )
    result = await world.turn(max_steps=1, native_search_allowed=True)
    loop, closing = world.prepared.requests
    assert (loop.calls_allowed, loop.web_search) == (True, True)
    assert (closing.calls_allowed, closing.web_search) == (False, False)
    assert (result.text, result.ended_by, result.steps) == ("that is all", EndedBy.STEP_CAP, 2)
    assert world.tools.ran == ["read"]
    assert world.journal.types[-3:] == ["step.started", "message.assistant", "step.completed"]


async def test_t4_text_in_the_last_reply_makes_a_closing_call_needless() -> None:
    world = World([reply(said("look"), called("c1", "read", {}))], MemoryTool("read"))
    result = await world.turn(max_steps=1)
    assert (result.text, result.steps, result.ended_by) == ("look", 1, EndedBy.STEP_CAP)


async def test_t4_text_only_in_an_earlier_reply_does_not_count() -> None:
    world = World(
        [
            reply(said("first"), called("c1", "read", {})),
            reply(said("  "), called("c2", "read", {})),
            reply(said("closing")),
        ],
        MemoryTool("read"),
    )
    result = await world.turn(max_steps=2)
    assert (result.text, len(world.prepared.requests)) == ("closing", 3)


async def test_t5_calls_in_the_closing_reply_are_neither_run_nor_stored() -> None:
    world = World(
        [reply(called("c1", "read", {})), reply(said("bye"), called("c2", "read", {}))],
        MemoryTool("read"),
    )
    result = await world.turn(max_steps=1)
    assert (result.text, world.tools.ran) == ("bye", ["read"])
    closing = world.journal.of(MessageAssistant)[-1]
    assert [part.type for part in closing.content] == ["text"]
    last = result.messages[-1]
    assert isinstance(last, AssistantMessage)
    assert not any(isinstance(part, ToolCall) for part in last.content)


async def test_t5_a_closing_call_that_fails_leaves_what_there_is() -> None:
    world = World(
        [reply(called("c1", "read", {})), [ProviderError(FailureKind.AUTH, "no")]],
        MemoryTool("read"),
    )
    result = await world.turn(max_steps=1)
    assert (result.text, result.ended_by, result.failure) == ("", EndedBy.STEP_CAP, None)
    assert len(result.messages) == 2
    assert world.journal.of(StepDiscarded) == [StepDiscarded(attempt=1, reason="auth")]


async def test_t5_a_closing_reply_cut_without_an_answer_is_taken_back() -> None:
    world = World(
        [reply(called("c1", "read", {})), [thought("hm"), final(stop="length")]],
        MemoryTool("read"),
    )
    result = await world.turn(max_steps=1)
    assert (result.text, result.failure, result.mid_stream_failure) == ("", None, None)
    assert world.journal.types[-2:] == ["step.started", "step.discarded"]


async def test_t6_usage_is_the_sum_with_the_closing_call_included() -> None:
    world = World(
        [
            reply(called("c1", "read", {}), usage=(10, 1)),
            reply(called("c2", "read", {}), usage=(20, 2)),
            reply(said("end"), usage=(30, 3)),
        ],
        MemoryTool("read"),
    )
    result = await world.turn(max_steps=2)
    assert (result.usage.input_tokens, result.usage.output_tokens) == (60, 6)
    assert result.usage == world.run.usage()


async def test_a_paused_turn_makes_no_closing_call() -> None:
    world = World([reply(called("c1", "post", {}))], MemoryTool("post", required=EGRESS, asks=True))
    result = await world.turn(max_steps=1)
    assert (result.ended_by, len(world.prepared.requests)) == (EndedBy.PAUSE, 1)


@pytest.mark.parametrize(
    ("loop", "ended_by"),
    [((), EndedBy.ANSWER), ((called("c1", "read", {}),), EndedBy.STEP_CAP)],
    ids=["the last step allowed", "the closing completion"],
)
async def test_an_answer_that_a_lost_worker_left_is_told_as_what_it_was(
    loop: tuple[StreamItem, ...], ended_by: EndedBy
) -> None:
    replies = [*([reply(*loop)] if loop else []), reply(said("done"))]
    world = World(replies, MemoryTool("read"))
    assert (await world.turn(max_steps=1)).ended_by is ended_by
    world.crash(len(world.journal.facts))
    world.steps_in_turn = len(replies)
    again = await world.turn(max_steps=1)
    assert (again.text, again.ended_by) == ("done", ended_by)
    assert len(world.prepared.requests) == len(replies)


@pytest.mark.parametrize(("reprompts", "ended_by"), [(2, EndedBy.ANSWER), (3, EndedBy.DENIAL_CAP)])
async def test_an_answer_after_as_many_denials_as_are_allowed_is_one(
    reprompts: int, ended_by: EndedBy
) -> None:
    world = World([reply(said("done"))])
    await world.turn()
    world.crash(len(world.journal.facts))
    world.so_far = TurnSoFar(denial_reprompts=reprompts)
    assert (await world.turn()).ended_by is ended_by


async def test_t44_steps_that_repeat_a_denied_call_are_counted_and_not_the_repeats() -> None:
    again = reply(*(called(f"r{n}", "post", {}, position=n) for n in range(2)))
    world = World(
        [reply(called("c1", "post", {})), again, again, reply(said("ok"))],
        MemoryTool("post", required=EGRESS, asks=True),
    )
    paused = await world.turn()
    result = await world.turn(approval_decisions=[deny(paused.pending_approvals[0])])
    assert (result.text, result.ended_by) == ("ok", EndedBy.ANSWER)
