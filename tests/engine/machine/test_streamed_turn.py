"""Streamed turns as the run sees them, and through the real assembler where one is needed."""

from __future__ import annotations

import pytest

from app.engine import texts
from app.engine.agent_run import AgentRun
from app.engine.commands import Fail, Ignore, Repair, Retry, Skip, Stop
from app.engine.errors import PromptCancelled, ProtocolViolation, UnknownToolCall
from app.engine.messages import AssistantMessage
from app.engine.streaming.assembler import StreamedTurnAssembler
from app.engine.streaming.items import (
    Ignored,
    InternalCallId,
    Repaired,
    StreamedTurn,
    StreamItem,
    ToolCallItem,
    TurnAbandoned,
)
from app.engine.turn_policy import ToolChoice, TurnPolicy
from app.engine.usage import FinishReason, Usage
from tests.engine.run_driving import (
    ADD,
    call,
    expect_call_model,
    expect_call_tools,
    expect_done,
    result,
    result_texts,
    started,
    stopped_at,
    streamed,
    text,
    tokens,
)

BAD = call("bad", "unknown")
OUTPUT = TurnPolicy(executable_tools=("add",), output_tool="final_result")


def assembled(run: AgentRun, *items: StreamItem) -> None:
    """Stream items into a turn and feed it."""
    assembler = StreamedTurnAssembler(run.effective_policy(ADD))
    for item in items:
        assembler.ingest(item)
    run.streamed_turn(assembler.finish(None, ()))


def test_a_streamed_tool_run_reaches_its_end() -> None:
    """A68"""
    run = started(2)
    usage = Usage(input_tokens=5, output_tokens=7, total_tokens=12)
    run.record_streamed_completion_call(usage)
    assembled(run, ToolCallItem(tool_call=call("tc_1"), internal_call_id="internal_tc_1"))
    (pending,) = expect_call_tools(run).calls
    assert pending.internal_call_id == "internal_tc_1"
    run.tool_results([result("tc_1", "2")])
    expect_call_model(run)
    run.record_streamed_completion_call(Usage())
    run.streamed_turn(streamed(text("done")))
    response = expect_done(run)
    assert (response.output, response.usage) == ("done", usage)
    assert (response.requests(), len(response.messages)) == (2, 4)


def test_a_record_survives_a_reload_and_the_new_attempt_may_make_its_own() -> None:
    """A177"""
    run = started()
    run.record_streamed_completion_call(tokens(1, 1))
    run = AgentRun.load(run.dump())
    run.reissue()
    run.record_streamed_completion_call(tokens(2, 2))
    with pytest.raises(ProtocolViolation, match="twice"):
        run.record_streamed_completion_call(tokens(2, 2))
    assert run.usage() == tokens(3, 3)
    assert (len(run.completion_calls()), run.turn()) == (2, 1)


def test_every_field_of_a_record_is_kept() -> None:
    """A44"""
    run = started()
    record = run.record_streamed_completion_call(
        tokens(1, 2),
        message_id="m",
        response_id="r",
        provider_request_id="p",
        finish_reason=FinishReason(kind="stop"),
        raw={"body": [1]},
    )
    assert run.completion_calls() == (record,)
    assert (record.call_index, record.message_id, record.response_id) == (0, "m", "r")
    assert (record.provider_request_id, record.raw) == ("p", {"body": [1]})


def test_a_streamed_name_that_is_not_allowed_fails_the_run() -> None:
    """A74"""
    run = started()
    run.record_streamed_completion_call(Usage())
    with pytest.raises(UnknownToolCall) as caught:
        run.streamed_turn(streamed(text("a"), BAD))
    assert caught.value.chat_history[-1] == AssistantMessage(content=(text("a"), BAD))
    assert run.state() == "failed"


def test_repair_and_ignore_leave_the_run_as_it_is() -> None:
    """A150, A201"""
    run = started()
    before = run.dump()
    stopped = stopped_at(BAD, policy=OUTPUT)
    repaired = run.resolve_streamed_invalid_tool_call(*stopped, Repair(tool_name="add"))
    assert repaired == Repaired(tool_name="add")
    assert run.resolve_streamed_invalid_tool_call(*stopped, Ignore()) == Ignored()
    assert run.dump() == before


@pytest.mark.parametrize("action", [Retry(feedback="use add"), Skip(reason="use add")])
def test_an_abandoned_turn_is_written_with_the_invalid_call_last(action: Retry | Skip) -> None:
    """A69, A72, A136"""
    run = started(2).max_invalid_tool_call_retries(1)
    stopped = stopped_at(BAD, call("good"), said="thinking ", policy=OUTPUT)
    resolution = run.resolve_streamed_invalid_tool_call(*stopped, action)
    skipped = result("bad", "use add", "unknown") if isinstance(action, Skip) else None
    assert resolution == TurnAbandoned(skipped_tool_result=skipped)
    assert run.output_tool_name() == "final_result"
    step = expect_call_model(run)
    assert step.history[-1] == AssistantMessage(content=(text("thinking "), call("good"), BAD))
    assert result_texts(step.prompt) == [texts.NOT_EXECUTED, "use add"]


def test_an_abandoned_turn_is_recorded_once() -> None:
    """A200"""
    run = started(2)
    run.resolve_streamed_invalid_tool_call(*stopped_at(BAD), Skip(reason="no"))
    run.record_streamed_completion_call(tokens(1, 1))
    with pytest.raises(ProtocolViolation, match="rolled-back"):
        run.record_streamed_completion_call(tokens(1, 1))
    recorded_before = started(2)
    recorded_before.record_streamed_completion_call(tokens(1, 1))
    recorded_before.resolve_streamed_invalid_tool_call(*stopped_at(BAD), Skip(reason="no"))
    with pytest.raises(ProtocolViolation, match="rolled-back"):
        recorded_before.record_streamed_completion_call(tokens(1, 1))


def test_refusals_mid_stream_end_the_run_like_buffered_ones() -> None:
    """A93, A142, A144"""
    none = TurnPolicy(executable_tools=("add",), tool_choice=ToolChoice(mode="none"))
    for action, policy, name in (
        (Fail(), ADD, "unknown"),
        (Repair(tool_name="absent"), ADD, "absent"),
        (Retry(feedback="again"), ADD, "unknown"),
        (Skip(reason="no"), none, "unknown"),
    ):
        run = started()
        stopped = stopped_at(BAD, call("good"), said="text", policy=policy)
        with pytest.raises(UnknownToolCall) as caught:
            run.resolve_streamed_invalid_tool_call(*stopped, action)
        assert caught.value.tool_name == name
        last = AssistantMessage(content=(text("text"), call("good"), BAD))
        assert caught.value.chat_history[-1] == last
        assert run.state() == "failed"


def test_a_stop_mid_stream_leaves_the_turn_out() -> None:
    """A70"""
    run = started()
    with pytest.raises(PromptCancelled) as caught:
        run.resolve_streamed_invalid_tool_call(*stopped_at(BAD), Stop(reason="enough"))
    assert (caught.value.reason, len(caught.value.chat_history)) == ("enough", 1)


def test_the_context_mid_stream_needs_no_state() -> None:
    """A139"""
    run = AgentRun.new("question")
    context = run.streamed_invalid_tool_call_context(*stopped_at(BAD, said=""))
    assert context.is_streaming
    assert (context.internal_call_id, context.args) == ("internal", '{"x":1}')
    assert context.chat_history[-1] == AssistantMessage(content=(BAD,))


def test_streamed_methods_need_a_pending_call() -> None:
    """A75"""
    run = AgentRun.new("question")
    with pytest.raises(ProtocolViolation, match="streamed_turn called without a pending CallModel"):
        run.streamed_turn(streamed(text("a")))
    with pytest.raises(ProtocolViolation, match="without a pending CallModel"):
        run.resolve_streamed_invalid_tool_call(*stopped_at(BAD), Fail())
    with pytest.raises(ProtocolViolation, match="without a pending or rolled-back CallModel"):
        run.record_streamed_completion_call(Usage())


def test_internal_ids_reach_the_batch_by_position() -> None:
    """A76"""
    run = started(2)
    internal = (InternalCallId(position=2, internal_call_id="second"),)
    choice = (text("note"), call("same"), call("same"))
    run.streamed_turn(StreamedTurn(choice=choice, policy=ADD, internal_call_ids=internal))
    calls = expect_call_tools(run).calls
    assert [one.internal_call_id for one in calls] == [None, "second"]


def test_a_turn_nobody_recorded_is_billed_with_nothing() -> None:
    """A77"""
    run = started()
    turn = streamed(text("a")).model_copy(
        update={"message_id": "m", "finish_reason": FinishReason(kind="stop")}
    )
    run.streamed_turn(turn)
    (record,) = run.completion_calls()
    assert (record.usage, record.message_id, record.raw) == (Usage(), "m", None)
    assert record.finish_reason == FinishReason(kind="stop")
