"""What a driver owes its batches, its bill and its reviewers (agent-run.md 13.4, A205 to A222)."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from typing_extensions import override

from app.engine.json.text import compact_json
from app.engine.messages import (
    AssistantMessage,
    ToolCall,
    ToolResult,
    ToolResultJson,
    ToolResultText,
    UserMessage,
)
from app.errors import LeaseLost
from app.log.calls import MessageAssistant, ToolFailed, ToolSettled, ToolStarted
from app.turn.ports import DispatchDeny, DispatchModify, ToolInvocation, ToolOutcome
from app.turn.result import EndedBy
from tests.support.turn.journal import KeptStream, MemoryJournal
from tests.support.turn.provider import called, cut, reply, said
from tests.support.turn.tools import MemoryTool
from tests.support.turn.world import World, approve, deny
from tests.turn.execution.test_mutations import Recorder

if TYPE_CHECKING:
    from collections.abc import Sequence

    from app.engine.messages import Message
    from app.engine.streaming.items import StreamItem
    from app.turn.ports import Fact


def one_call(**tool: Any) -> World:
    return World(
        [reply(called("c1", "post", {"n": 1})), reply(said("ok"))], MemoryTool("post", **tool)
    )


def results(messages: Sequence[Message]) -> list[str]:
    """The results of all calls, in order: the text of a tool, or what the turn itself answers."""
    return [
        content.text if isinstance(content, ToolResultText) else compact_json(content.value)
        for message in messages
        if isinstance(message, UserMessage)
        for part in message.content
        if isinstance(part, ToolResult)
        for content in part.content
        if isinstance(content, ToolResultText | ToolResultJson)
    ]


def emitted(messages: Sequence[Message]) -> list[object]:
    """The arguments of all calls as the history has them."""
    return [
        part.function.arguments
        for message in messages
        if isinstance(message, AssistantMessage)
        for part in message.content
        if isinstance(part, ToolCall)
    ]


async def test_a212_whatever_becomes_of_a_call_it_has_one_result_and_the_run_goes_on() -> None:
    async def slow(call: ToolInvocation) -> ToolOutcome:
        return ToolOutcome(text='{"error":"It took too long.","code":"timeout"}', code="timeout")

    async def broken(call: ToolInvocation) -> ToolOutcome:
        raise RuntimeError("disk")

    names = ("nowhere", "read", "slow", "broken", "vetoed")
    arguments: tuple[Any, ...] = ({}, "{", {}, {}, {})
    calls = [called(f"c{n}", names[n], arguments[n], position=n) for n in range(5)]
    world = World(
        [reply(*calls), reply(said("ok"))],
        MemoryTool("read"),
        MemoryTool("slow", body=slow),
        MemoryTool("broken", body=broken),
        MemoryTool("vetoed", decision=DispatchDeny("never")),
    )
    result = await world.turn()
    assert (result.text, result.failure, result.steps) == ("ok", None, 2)
    assert [json.loads(text)["code"] for text in results(result.messages)] == [
        "unknown_tool",
        "malformed_arguments",
        "timeout",
        "tool_failed",
        "denied_by_policy",
    ]
    assert len(world.journal.of(ToolSettled)) + len(world.journal.of(ToolFailed)) == 5


async def test_a213_a_call_that_policy_answers_never_starts_and_its_answer_is_history() -> None:
    world, stream = one_call(decision=DispatchDeny("office hours only")), KeptStream()
    result = await world.turn(stream_tx=stream)
    assert (world.tools.ran, world.journal.of(ToolStarted)) == ([], [])
    assert not any(type(event).__name__ == "ToolStarted" for event in stream.events)
    assert results(result.messages) == ['{"error":"office hours only","code":"denied_by_policy"}']
    assert results(world.prepared.requests[1].messages) == results(result.messages)


async def test_a214_rewritten_arguments_run_and_are_recorded_and_history_has_the_models() -> None:
    world = one_call(decision=DispatchModify({"n": 9}, "cap-n"))
    await world.turn(dispatch_recorder=Recorder())
    assert [call.args for call in world.tools.calls] == [{"n": 9}]
    (start,) = world.journal.of(ToolStarted)
    # The digest of {"n":9}.
    assert start.args_sha256 == "6caf899d67cf6d60680d8645cc09837f8d48c4d85ba0f8a4f112428fd03c358d"
    assert [dict(args) for args in emitted(world.run.messages()) if isinstance(args, dict)] == [
        {"n": 1}
    ]


async def test_a215_a_start_that_is_not_committed_shows_and_runs_nothing() -> None:
    class Fenced(MemoryJournal):
        @override
        async def record(self, *facts: Fact) -> None:
            if any(isinstance(fact.payload, ToolStarted) for fact in facts):
                raise LeaseLost("taken over")
            await super().record(*facts)

    world, stream = one_call(), KeptStream()
    world.journal = Fenced()
    with pytest.raises(LeaseLost):
        await world.turn(stream_tx=stream)
    assert (world.tools.ran, stream.events) == ([], [])
    assert world.journal.types == ["step.started"]


@pytest.mark.parametrize("item", [said("half"), called("c1", "post", {})], ids=["text", "call"])
async def test_a216_a_stream_without_its_terminal_record_is_an_error(item: StreamItem) -> None:
    world = World([cut(item)], MemoryTool("post"))
    result = await world.turn()
    assert result.ended_by is EndedBy.FAILURE
    assert result.mid_stream_failure is not None
    assert (world.run.completion_calls(), world.tools.ran) == ((), [])


async def test_a218_every_model_call_is_billed_once_and_in_order() -> None:
    world = World(
        [
            reply(called("c1", "post", {}), usage=(20, 3)),
            reply(said("ok"), usage=(15, 4)),
        ],
        MemoryTool("post"),
    )
    result = await world.turn(stream_tx=KeptStream())
    told = [(one.usage.input_tokens, one.usage.output_tokens) for one in _replies(world)]
    assert told == [(20, 3), (15, 4)]
    assert [call.call_index for call in world.run.completion_calls()] == [0, 1]
    usage = result.usage
    assert (usage.input_tokens, usage.output_tokens, usage.total_tokens) == (35, 7, 42)


def _replies(world: World) -> list[MessageAssistant]:
    return world.journal.of(MessageAssistant)


async def added(call: ToolInvocation) -> ToolOutcome:
    return ToolOutcome(text=str(call.args["a"] + call.args["b"]))


def three_sums() -> World:
    sums = [{"a": 2, "b": 3}, {"a": 4, "b": 5}, {"a": 6, "b": 7}]
    calls = [called(f"c{n}", "add", args, position=n) for n, args in enumerate(sums)]
    return World([reply(*calls), reply(said("ok"))], MemoryTool("add", asks=True, body=added))


async def test_a220_of_three_reviews_each_has_its_own_effect() -> None:
    world = three_sums()
    first, second, third = (await world.turn()).pending_approvals
    result = await world.turn(
        approval_decisions=[
            approve(first),
            deny(second),
            approve(third, edit='{"a":100,"b":1}'),
        ]
    )
    five, denied, sum_of_the_edit = results(world.run.messages())
    assert (result.text, five) == ("ok", "5")
    assert json.loads(denied)["approved"] is False
    assert sum_of_the_edit.endswith("101")
    assert [dict(call.args) for call in world.tools.calls] == [
        {"a": 2, "b": 3},
        {"a": 100, "b": 1},
    ]


async def test_a221_a_reviewer_who_is_gone_or_talks_nonsense_lets_nothing_run() -> None:
    """Nonsense is what fits no call; no verdict but the two literals gets this far (T74)."""
    world = three_sums()
    first, *_ = (await world.turn()).pending_approvals
    for given in (
        [],
        [approve(replace(first, args_json='{"a":1,"b":1}'))],
        [approve(replace(first, tool_name="sub"))],
    ):
        again = await world.turn(approval_decisions=given)
        assert (again.ended_by, len(again.pending_approvals)) == (EndedBy.PAUSE, 3)
    assert world.tools.ran == []


async def test_a_batch_of_any_size_runs_a_bounded_number_of_calls_at_once() -> None:
    """A211, I21: 32 at once, and the rest as soon as there is room."""
    running, most = 0, 0

    async def body(call: ToolInvocation) -> ToolOutcome:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1
        return ToolOutcome(text="done")

    calls = [called(f"c{n}", "post", {"n": n}, position=n) for n in range(70)]
    world = World([reply(*calls), reply(said("ok"))], MemoryTool("post", body=body))
    result = await world.turn()
    assert (result.text, most) == ("ok", 32)
    assert [call.args["n"] for call in world.tools.calls] == list(range(70))
    assert results(result.messages) == ["done"] * 70
