"""Replies between stream, AgentRun and log."""

from __future__ import annotations

import json

import pytest
import structlog

from app.engine.agent_run import AgentRun
from app.engine.commands import CallTools, Done
from app.engine.messages import (
    AssistantImage,
    AssistantText,
    Reasoning,
    ReasoningEncrypted,
    ReasoningSummary,
    ReasoningText,
    ToolResultJson,
    ToolResultText,
)
from app.engine.streaming.items import (
    FinalItem,
    ReasoningItem,
    StreamItem,
    ToolCallArgumentsItem,
    ToolCallNameItem,
    UnknownItem,
)
from app.log.calls import MessageAssistant
from app.turn.model.reply import (
    answer_executed,
    answer_settled,
    assemble,
    decode_reply,
    encode_reply,
    replay_reply,
    result_of,
)
from app.turn.model.reply_facts import reply_parts
from app.turn.ports import FailureKind
from app.turn.transcript import Transcript
from tests.support.turn.provider import called, cut, final, reply, said, thought
from tests.support.turn.tools import MemoryTool
from tests.support.turn.world import World


def run_of(*items: StreamItem) -> tuple[AgentRun, bytes]:
    run = AgentRun.new("do it")
    stored = [item for item in items if isinstance(item, FinalItem)][-1]
    turn = assemble(run, items, advertised=("read",))
    return run, encode_reply(turn, stored)


def test_a_stored_reply_gives_the_reply_back_without_the_providers_body() -> None:
    _, private = run_of(thought("hm"), said("a"), called("c1", "nope", {"x": 1}), final((3, 4)))
    turn, stored = decode_reply(private)
    assert [part.type for part in turn.choice] == ["reasoning", "text", "tool_call"]
    assert (stored.usage.input_tokens, stored.usage.output_tokens, stored.raw) == (3, 4, None)
    assert b"secret" not in private
    assert turn.policy.executable_tools == ("nope", "read")


def test_bytes_that_are_no_reply_are_refused() -> None:
    with pytest.raises(ValueError, match="turn"):
        decode_reply(b'{"v":1}')


def test_replayed_replies_and_answers_give_the_run_back() -> None:
    run, private = run_of(called("c1", "read", {}), called("c2", "read", "[", position=1), final())
    assert isinstance(replay_reply(run, private), CallTools)
    sound, malformed = run.pending_tool_calls()
    run.answer_tool_calls(
        [answer_settled(malformed, '{"error":"no"}'), answer_executed(sound, "done")]
    )
    other, answer = run_of(said("ok"), final())
    assert isinstance(replay_reply(run, answer), Done)
    assert run.usage().input_tokens == 2
    assert other.turn() == 0


def test_a_settled_result_stands_as_json_and_an_executed_one_as_text() -> None:
    run, private = run_of(called("c1", "read", {}), called("c2", "read", "[", position=1), final())
    replay_reply(run, private)
    sound, malformed = run.pending_tool_calls()
    text = '{"approved":false,"error":"denied by human approver"}'
    (denied,) = result_of(sound, answer_settled(sound, text)).content
    assert isinstance(denied, ToolResultJson)
    assert json.dumps(denied.value, separators=(",", ":")) == text
    (ran,) = result_of(sound, answer_executed(sound, text)).content
    (refused,) = result_of(malformed, answer_settled(malformed, text)).content
    assert ran == refused == ToolResultText(text=text)


def test_a_settled_text_that_is_no_json_stands_as_it_is() -> None:
    run, private = run_of(called("c1", "read", {}), final())
    replay_reply(run, private)
    (pending,) = run.pending_tool_calls()
    content = result_of(pending, answer_settled(pending, "cancelled")).content
    assert content == (ToolResultText(text="cancelled"),)


def test_a_malformed_call_without_an_action_has_an_empty_reason() -> None:
    run, private = run_of(called("c1", "read", "["), final())
    replay_reply(run, private)
    (malformed,) = run.pending_tool_calls()
    result = result_of(malformed, malformed.answer_malformed())
    assert result.content == (ToolResultText(text=""),)


def test_the_log_shows_what_of_a_reply_is_meant_to_be_read() -> None:
    content = (
        Reasoning(content=(ReasoningText(text="a"), ReasoningSummary(text="b"))),
        Reasoning(content=(ReasoningEncrypted(text="c"),)),
        AssistantText(text="d"),
        AssistantImage(source="data:"),
    )
    transcript = Transcript(run=AgentRun.new("hello"), turn_number=1, user_text="hello")
    parts = reply_parts(content, transcript, step=1)
    assert [(part.type, part.text) for part in parts] == [("reasoning", "ab"), ("text", "d")]


async def test_neighbouring_pieces_are_one_part_and_a_search_between_them_changes_nothing() -> None:
    block = Reasoning(content=(ReasoningText(text="whole", signature="s"),))
    world = World(
        [
            reply(
                thought("a"),
                thought("b"),
                ReasoningItem(correlator="other", reasoning=block),
                said("x"),
                UnknownItem(payload="odd"),
                UnknownItem(payload={"type": "annotation"}),
                said("y"),
            )
        ]
    )
    result = await world.turn(native_search_allowed=True)
    assert (result.text, result.grounded) == ("xy", False)
    (message,) = world.journal.of(MessageAssistant)
    assert [(part.type, part.text) for part in message.content] == [
        ("reasoning", "ab"),
        ("reasoning", "whole"),
        ("text", "xy"),
    ]


async def test_two_thoughts_side_by_side_stay_two() -> None:
    other = thought("b").model_copy(update={"correlator": "second"})
    world = World([reply(thought("a"), other, said("x"))])
    await world.turn()
    (message,) = world.journal.of(MessageAssistant)
    assert [part.text for part in message.content] == ["a", "b", "x"]


async def test_content_the_engine_has_no_word_for_is_reported() -> None:
    world = World([reply(UnknownItem(payload={"type": "text", "text": "lost"}), said("x"))])
    with structlog.testing.capture_logs() as logs:
        await world.turn()
    assert [(log["event"], log["parts"]) for log in logs] == [("reply.content_excluded", 1)]


async def test_a_call_that_arrives_in_pieces_is_forwarded_once_it_is_whole() -> None:
    whole = called("c1", "read", {"a": 1})
    name = ToolCallNameItem(internal_call_id=whole.internal_call_id, name="read")
    piece = ToolCallArgumentsItem(internal_call_id=whole.internal_call_id, delta='{"a":1}')
    world = World([reply(name, piece, whole), reply(said("ok"))], MemoryTool("read"))
    await world.turn()
    assert world.tools.calls[0].args_canonical == b'{"a":1}'


async def test_a_name_that_is_empty_in_pieces_gets_one_too() -> None:
    whole = called("c1", "", {})
    name = ToolCallNameItem(internal_call_id=whole.internal_call_id, name="")
    world = World([reply(name, whole), reply(said("ok"))], MemoryTool("read"))
    assert (await world.turn()).text == "ok"


async def test_a_run_that_was_left_between_reply_and_batch_fails_as_internal() -> None:
    world = World([], MemoryTool("read"))
    _, private = run_of(called("c1", "read", {}), final())
    turn, stored = decode_reply(private)
    world.run.next_step()
    world.run.record_streamed_completion_call(stored.usage)
    world.run.streamed_turn(turn)
    result = await world.turn()
    assert result.failure is not None
    assert result.failure.kind is FailureKind.INTERNAL


async def test_arguments_that_belong_to_no_call_fail_the_turn() -> None:
    stray = ToolCallArgumentsItem(internal_call_id="i1", delta="{}")
    world = World([cut(said("half"), stray, final())])
    result = await world.turn()
    assert result.failure is not None
    assert (result.failure.kind, result.text) == (FailureKind.OTHER, "half")
