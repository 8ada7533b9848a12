from __future__ import annotations

import json
from typing import Any

import pytest

from app.engine.agent_run import AgentRun
from app.engine.messages import UserMessage
from app.engine.texts import INTERRUPTED
from app.engine.turn_policy import ToolChoice, TurnPolicy
from tests.engine.machine.run_states import EVERY_STATE
from tests.engine.run_driving import (
    ADD,
    answered,
    call,
    expect_done,
    in_batch,
    malformed,
    result_texts,
    started,
    stopped_at,
    text,
    tokens,
    turn,
)

QUESTION = UserMessage.of_text("question")


def test_the_response_says_what_the_run_says() -> None:
    """A80"""
    run = started()
    run.model_response(turn(text("answer"), usage=tokens(3, 4)))
    response = expect_done(run)
    assert AgentRun.load(run.dump()).response() == run.response() == response
    assert run.usage() == response.usage == tokens(3, 4)
    assert run.messages() == response.messages
    assert [message.role for message in response.messages] == ["user", "assistant"]
    assert response.requests() == 1


def test_a_stop_after_the_response_resumes_without_the_turn() -> None:
    """A217"""
    run = started()
    run.model_response(turn(text("answer"), usage=tokens(1, 2)))
    error = run.cancel_error("stopped by a hook")
    assert error.chat_history == run.full_history() == (QUESTION,)
    assert run.usage() == tokens(1, 2)


def test_outside_the_batch_a_malformed_context_lists_no_tools() -> None:
    """agent-run.md 5.11"""
    run = in_batch(malformed("a"))
    (pending,) = run.pending_tool_calls()
    run.answer_tool_call(pending.answer_malformed())
    context = run.malformed_tool_call_context(pending, is_streaming=True)
    assert (context.available_tools, context.allowed_tools) == ((), ())
    assert context.is_streaming


def test_a_representation_shows_no_content() -> None:
    run = in_batch(call("secret"))
    assert repr(run) == "<AgentRun executing_tools turn=1 messages=2 calls=1>"


def test_only_a_malformed_call_has_a_malformed_context() -> None:
    run = in_batch(call("a"))
    with pytest.raises(ValueError, match="expected a malformed call"):
        run.malformed_tool_call_context(run.pending_tool_calls()[0])


def test_the_policy_in_force_is_explicit_and_stays_what_it_is() -> None:
    """agent-run.md 10"""
    none = ToolChoice(mode="none")
    run = AgentRun.new("question").with_tool_choice(none).with_output_tool_name("final_result")
    effective = run.effective_policy(ADD)
    assert (effective.tool_choice, effective.output_tool) == (none, "final_result")
    assert run.effective_policy(effective) == effective
    withheld = run.effective_policy(TurnPolicy(output_tool_withheld=True))
    assert (withheld.output_tool, withheld.output_tool_withheld) == (None, True)
    assert AgentRun.new("question").effective_policy(ADD).output_tool_withheld


def test_every_accessor_answers_in_every_state() -> None:
    """A133 and agent-run.md 5.1"""
    for build in EVERY_STATE:
        run = build()
        document: Any = run.dump()
        assert run.state() == document["state"]["name"]
        assert run.is_done() is (run.state() == "done") is (run.response() is not None)
        parked = run.pending_invalid_tool_call()
        assert (parked is not None) is (run.state() == "resolving_tool_calls")
        assert parked == run.pending_invalid_tool_call()
        assert (run.initial_prompt() is not None) is (run.turn() == 0)
        assert bool(run.pending_tool_calls()) is (run.state() == "executing_tools")
        expected = len(run.messages()) - (run.state() == "executing_tools")
        assert run.projection_start() == expected
        assert not run.input_history()
        assert not run.entries()
        assert run.previous_model() is run.output_tool_name() is None


def test_an_accepted_turn_is_shown_unless_it_is_empty() -> None:
    run = started()
    assert run.accepted_turn() is None
    answered(run, text("a"))
    assert run.accepted_turn() == (text("a"),)
    empty = started()
    answered(empty, text(""))
    assert empty.accepted_turn() is None


def test_the_context_of_a_stream_can_be_asked_for_at_any_time() -> None:
    run = AgentRun.new("question")
    context = run.streamed_invalid_tool_call_context(*stopped_at(call("a", "unknown")))
    assert (context.tool_name, context.allowed_tools) == ("unknown", ("add",))


def test_a_run_equals_another_with_the_same_document() -> None:
    """A45"""
    for build in EVERY_STATE:
        assert build() == build()
        assert json.loads(build().dump_json()) == build().dump()
    assert started() != started(2)
    with pytest.raises(TypeError, match="cannot be hashed"):
        hash(started())


def test_usage_and_history_are_those_of_the_record() -> None:
    """A175"""
    run = in_batch(call("a"), call("b"))
    run.answer_tool_call(run.pending_tool_calls()[1].answer("2"))
    assert run.full_history()[:-1] == run.messages()
    assert result_texts(run.full_history()[-1]) == [INTERRUPTED, "2"]
    billed = started()
    billed.record_streamed_completion_call(tokens(1, 2))
    assert billed.usage() == tokens(1, 2)
    assert [one.usage for one in billed.completion_calls()] == [tokens(1, 2)]
