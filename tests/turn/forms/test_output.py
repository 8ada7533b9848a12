"""Turns of an agent whose answers have a form (agent-run.md 7): A31 to A39, A185 through a turn."""

from __future__ import annotations

import json
from typing import Any

import pytest

from app.engine.messages import AssistantMessage, ToolCall
from app.log.calls import MessageAssistant, ToolSettled, ToolStarted
from app.log.runs import StepCompleted
from app.turn.agent import BoundAgent
from app.turn.ports import FailureKind
from app.turn.result import EndedBy
from app.turn.stream import ReasoningDelta
from tests.support.turn.journal import KeptStream
from tests.support.turn.provider import PreparedProvider, called, final, reply, said, thought
from tests.support.turn.tools import MemoryTool
from tests.support.turn.world import World, approve

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"total": {"type": "integer"}},
    "required": ["total"],
    "additionalProperties": False,
}
AGENT = BoundAgent(name="tester", model="prepared", instructions="Be brief.", output_schema=SCHEMA)
NOT_EXECUTED = "Not executed: another tool call in the same turn was invalid."


def world(*replies: Any, tools: tuple[MemoryTool, ...] = (), agent: BoundAgent = AGENT) -> World:
    return World(replies, *tools, agent=agent)


def answer(wire_id: str, args: Any) -> Any:
    return called(wire_id, "final_result", args)


def settled(one: World) -> list[tuple[str, str, str]]:
    return [(fact.call_id, fact.outcome, fact.result) for fact in one.journal.of(ToolSettled)]


async def test_a31_a_call_of_the_output_tool_is_the_answer_and_runs_nowhere() -> None:
    one = world(reply(said("so: "), answer("c1", {"total": 3})))
    result = await one.turn()
    assert (result.ended_by, result.text, result.executed_calls) == (
        EndedBy.ANSWER,
        '{"total":3}',
        0,
    )
    assert one.journal.of(ToolStarted) == []
    assert settled(one) == [("call_1_1_0", "answered", '{"accepted":true}')]
    assert one.journal.of(StepCompleted)[0].calls == 1
    last = one.run.messages()[-1]
    assert isinstance(last, AssistantMessage)
    assert not any(isinstance(part, ToolCall) for part in last.content)


async def test_the_output_tool_is_offered_last_with_the_schema_as_its_parameters() -> None:
    one = world(reply(answer("c1", {"total": 3})), tools=(MemoryTool("read"),))
    await one.turn()
    (request,) = one.prepared.requests
    assert [spec.name for spec in request.tools] == ["read", "final_result"]
    assert request.tools[-1].parameters == SCHEMA
    assert request.instructions == "Be brief."


async def test_a_schema_that_names_no_type_is_offered_as_an_object() -> None:
    agent = BoundAgent(name="tester", model="prepared", output_schema={"required": ["total"]})
    one = world(reply(answer("c1", {"total": 3})), agent=agent)
    await one.turn()
    assert one.prepared.requests[0].tools[0].parameters == {"required": ["total"], "type": "object"}


async def test_a33_calls_beside_the_output_tool_are_dropped() -> None:
    """The person who would be asked about them is not."""
    one = world(
        reply(called("c1", "post", {}), answer("c2", {"total": 3}), answer("c3", {"total": 4})),
        tools=(MemoryTool("post", asks=True),),
    )
    result = await one.turn()
    assert (result.text, result.pending_approvals, one.tools.ran) == ('{"total":3}', (), [])
    assert [outcome for _, outcome, _ in settled(one)] == ["cancelled", "answered", "cancelled"]
    emitted = one.journal.of(MessageAssistant)[0].content
    assert [part.tool for part in emitted] == ["post", "final_result", "final_result"]


async def test_a36_arguments_that_do_not_match_are_asked_for_again() -> None:
    one = world(
        reply(called("c1", "post", {}), answer("c2", {"sum": 3})),
        reply(answer("c1", {"total": 3})),
        tools=(MemoryTool("post"),),
    )
    result = await one.turn()
    feedback = (
        "The arguments of `final_result` are missing required field(s): total. The arguments of "
        "`final_result` do not match the schema: /: additionalProperties. Call `final_result` "
        "again with corrected arguments."
    )
    assert settled(one)[:2] == [
        ("call_1_1_0", "cancelled", NOT_EXECUTED),
        ("call_1_1_1", "invalid_arguments", feedback),
    ]
    assert (result.text, result.steps, one.tools.ran) == ('{"total":3}', 2, [])
    assert [fact.step for fact in one.journal.facts] == [1] * 5 + [2] * 4
    assert [step.calls for step in one.journal.of(StepCompleted)] == [2, 1]


async def test_a35_prose_is_asked_for_again_and_sound_text_is_taken_as_it_is() -> None:
    one = world(reply(said("three")), reply(said(' {"total": 3}\n')))
    result = await one.turn()
    assert (result.text, result.steps) == (' {"total": 3}\n', 2)
    assert one.journal.of(ToolSettled) == []
    prompt = one.prepared.requests[1].messages[-1]
    assert "by calling the `final_result` tool" in prompt.model_dump_json()


async def test_after_one_further_try_the_answer_is_taken_as_it_is() -> None:
    """Who validates it is the service."""
    one = world(reply(said("three")), reply(said("four")))
    result = await one.turn()
    assert (result.text, result.ended_by, result.steps) == ("four", EndedBy.ANSWER, 2)


async def test_a38_at_the_step_cap_nothing_is_asked_for_again() -> None:
    one = world(reply(said("three")))
    result = await one.turn(max_steps=1)
    assert (result.text, result.steps) == ("three", 1)


async def test_a32_malformed_arguments_are_asked_for_again_and_then_fail_the_turn() -> None:
    one = world(reply(answer("c1", '"x"')), reply(answer("c1", '"secret"')))
    result = await one.turn()
    assert settled(one)[0][1] == "malformed_arguments"
    assert result.failure is not None
    assert result.failure.kind is FailureKind.OUTPUT_INVALID
    assert "secret" not in result.failure.message


async def test_real_tools_run_before_the_answer() -> None:
    one = world(
        reply(called("c1", "read", {})),
        reply(answer("c1", {"total": 3})),
        tools=(MemoryTool("read"),),
    )
    result = await one.turn()
    assert (one.tools.ran, result.text, result.executed_calls) == (["read"], '{"total":3}', 1)


async def test_a_pause_keeps_the_mode_and_the_name() -> None:
    one = world(
        reply(called("c1", "post", {})),
        reply(answer("c1", {"total": 3})),
        tools=(MemoryTool("post", asks=True),),
    )
    paused = await one.turn()
    assert one.run.output_tool_name() == "final_result"
    one.run = type(one.run).load(one.run.dump_json())
    ended = await one.turn(approval_decisions=[approve(paused.pending_approvals[0])])
    assert (one.tools.ran, ended.text) == (["post"], '{"total":3}')


async def test_an_agent_that_has_a_tool_of_that_name_offers_another_name() -> None:
    """#2136"""
    one = world(reply(called("c1", "final_result_1", {"total": 3})), tools=(named(),))
    result = await one.turn()
    assert (result.text, one.tools.ran) == ('{"total":3}', [])
    assert one.run.output_tool_name() == "final_result_1"


async def test_a_tool_that_takes_the_name_later_fails_the_turn_before_the_model_is_asked() -> None:
    """#2136"""
    one = world()
    one.run.pin_output_tool("final_result")
    one.tools = type(one.tools)(named())
    result = await one.turn()
    assert result.failure is not None
    assert result.failure.kind is FailureKind.BAD_REQUEST
    assert one.prepared.requests == []


def named() -> MemoryTool:
    return MemoryTool("final_result")


async def test_text_is_held_back_and_reasoning_is_not() -> None:
    one, stream = world(reply(thought("hm"), said('{"total":3}'))), KeptStream()
    await one.turn(stream_tx=stream)
    assert stream.events == [ReasoningDelta("hm")]


async def test_the_closing_completion_is_told_the_form_and_is_not_asked_again() -> None:
    one = world(
        reply(called("c1", "read", {})),
        reply(said("three"), answer("c2", {"total": 3})),
        tools=(MemoryTool("read"),),
    )
    result = await one.turn(max_steps=1)
    assert (result.text, result.ended_by, result.steps) == ("three", EndedBy.STEP_CAP, 2)
    loop, closing = one.prepared.requests
    assert loop.instructions == "Be brief."
    told = "one JSON object that matches this JSON Schema: " + json.dumps(
        SCHEMA, separators=(",", ":")
    )
    assert closing.instructions.endswith(told)


async def test_a_truncated_call_is_checked_like_any_other() -> None:
    """A189"""
    one = world([answer("c1", {}), final(stop="length")], reply(answer("c1", {"total": 3})))
    assert (await one.turn()).text == '{"total":3}'


async def test_feedback_of_the_engine_does_not_taint() -> None:
    one = world(
        reply(called("c1", "post", {}), answer("c2", {})),
        reply(called("c1", "post", {})),
        tools=(MemoryTool("post", asks=True),),
    )
    await one.turn()
    one.tools.by_name["post"].ingests = True
    one.provider = PreparedProvider([])
    assert not (await one.turn()).tainted


@pytest.mark.parametrize("kept", range(1, 11))
async def test_a_run_that_was_lost_anywhere_comes_to_the_same_answer(kept: int) -> None:
    """The log alone says whether an answer was asked for again."""
    replies = [reply(said("three")), reply(answer("c1", {"total": 3}))]
    whole = world(*replies)
    await whole.turn(max_steps=4)
    facts = [fact.payload.TYPE for fact in whole.journal.facts]
    lost = world(*replies)
    await lost.turn(max_steps=4)
    commits, count = [], 0
    for commit in lost.journal.commits:
        if count + len(commit) > kept:
            break
        commits.append(commit)
        count += len(commit)
    lost.crash(count)
    taken = sum(fact.payload.TYPE == "message.assistant" for c in commits for fact in c)
    lost.provider = PreparedProvider(replies[taken:])
    lost.turns -= 1
    ended = await lost.turn(max_steps=4 - taken)
    assert (ended.text, lost.run.turn()) == ('{"total":3}', 2)
    assert lost.run.messages() == whole.run.messages()
    assert facts.count("message.assistant") == 2
