"""Buffered runs, driven by hand. What the conformance cases script already is not repeated here."""

from __future__ import annotations

from typing import Any, cast

import pytest

from app.engine.agent_run import AgentRun
from app.engine.commands import (
    Feedback,
    Repeat,
    RunEntry,
)
from app.engine.errors import (
    CompletionError,
    MaxTurnsError,
    ProtocolViolation,
)
from app.engine.messages import AssistantMessage, UserMessage
from app.engine.turn_policy import ToolChoice, TurnPolicy
from app.engine.usage import FinishReason
from tests.engine.run_driving import (
    ADD,
    answered,
    call,
    expect_call_model,
    expect_call_tools,
    expect_done,
    in_batch,
    malformed,
    result,
    started,
    text,
    tokens,
    turn,
)

QUESTION = UserMessage.of_text("question")


def test_the_default_budget_runs_the_tools_of_its_only_turn_and_then_stops() -> None:
    """A10"""
    run = started()
    answered(run, call("call_1"))
    expect_call_tools(run)
    run.tool_results([result("call_1", "2")])
    with pytest.raises(MaxTurnsError) as caught:
        run.next_step()
    assert caught.value.max_turns == 1
    assert caught.value.prompt == UserMessage(content=(result("call_1", "2"),))
    assert run.turn() == 1


def test_the_response_says_what_the_run_says() -> None:
    """A80"""
    run = started()
    run.model_response(turn(text("answer"), usage=tokens(3, 4)))
    response = expect_done(run)
    assert run.response() == response
    assert run.usage() == response.usage == tokens(3, 4)
    assert run.messages() == response.messages
    assert [message.role for message in response.messages] == ["user", "assistant"]
    assert response.requests() == 1


def test_the_last_turn_of_the_budget_is_announced() -> None:
    """A193"""
    run = started(2)
    answered(run, call("a"))
    assert not expect_call_tools(run).final_turn
    run.tool_results([result("a", "1")])
    expect_call_model(run)
    answered(run, call("b"))
    assert expect_call_tools(run).final_turn
    run.max_turns(3)
    assert not expect_call_tools(run).final_turn


def test_an_accepted_text_turn_can_be_replaced_and_a_turn_with_calls_cannot() -> None:
    """A198"""
    run = started()
    answered(run, text("first"))
    with pytest.raises(ProtocolViolation, match="tool-bearing"):
        run.replace_accepted_turn([call("a")])
    run.replace_accepted_turn([text("second")])
    assert run.accepted_turn() == (text("second"),)
    assert expect_done(run).output == "second"
    with_calls = started()
    answered(with_calls, call("a"))
    with pytest.raises(ProtocolViolation, match="tool-bearing"):
        with_calls.replace_accepted_turn([text("second")])
    with pytest.raises(ProtocolViolation, match="without an accepted turn"):
        started().replace_accepted_turn([text("second")])


def test_a_rejected_answer_is_forgotten_or_kept_with_the_feedback() -> None:
    """A3, A4"""
    run = started(3)
    answered(run, text("one"))
    run.retry_model_turn(Repeat())
    assert expect_call_model(run).history == ()
    answered(run, text("two"))
    run.retry_model_turn(Feedback(text="try again"))
    step = expect_call_model(run)
    assert step.prompt == UserMessage.of_text("try again")
    assert step.history == (QUESTION, AssistantMessage(content=(text("two"),)))


def test_a_provider_error_leaves_no_record_and_the_turn_is_asked_for_again() -> None:
    """A147, A219"""
    run = AgentRun.new("question")
    first = expect_call_model(run)
    assert run.reissue() == run.reissue() == first
    assert (run.turn(), run.completion_calls()) == (1, ())
    answered(run, text("answer"))
    with pytest.raises(ProtocolViolation, match="reissue called without a pending CallModel"):
        run.reissue()


def test_a_stop_after_the_response_resumes_without_the_turn() -> None:
    """A217"""
    run = started()
    run.model_response(turn(text("answer"), usage=tokens(1, 2)))
    error = run.cancel_error("stopped by a hook")
    assert error.chat_history == run.full_history() == (QUESTION,)
    assert run.usage() == tokens(1, 2)


def test_a_failed_call_without_a_detail_is_still_a_failure() -> None:
    """A116, A158"""
    run = started()
    run.model_response(turn(call("a"), finish=FinishReason(kind="failed")))
    with pytest.raises(CompletionError, match="no detail was given") as caught:
        run.next_step()
    assert caught.value.content == (call("a"),)
    assert caught.value.chat_history == run.messages() == (QUESTION,)


def test_one_malformed_call_beside_a_good_one_breaks_a_limit_of_zero() -> None:
    """A170"""
    run = started(2).max_consecutive_malformed_tool_calls(0)
    answered(run, malformed("a"), call("b"))
    with pytest.raises(CompletionError, match="`add` were malformed in 1 consecutive turns"):
        run.next_step()
    assert run.messages() == (QUESTION,)


def test_outside_the_batch_a_malformed_context_lists_no_tools() -> None:
    """agent-run.md 5.11"""
    run = in_batch(malformed("a"))
    (pending,) = run.pending_tool_calls()
    run.answer_tool_call(pending.answer_malformed())
    context = run.malformed_tool_call_context(pending, is_streaming=True)
    assert (context.available_tools, context.allowed_tools) == ((), ())
    assert context.is_streaming


def test_entries_and_the_previous_model_never_reach_a_command() -> None:
    """A156, A166"""
    plain, noted = AgentRun.new("question"), AgentRun.new("question")
    noted.append_entry(RunEntry(kind="approval", turn=0, value=None))
    noted.append_entry(RunEntry(kind="note", turn=1, value={"a": [1]}))
    noted.set_previous_model("fast")
    loaded = AgentRun.load(noted.dump())
    assert [entry.kind for entry in loaded.entries()] == ["approval", "note"]
    assert loaded.previous_model() == "fast"
    assert loaded.next_step() == plain.next_step()


def test_an_output_tool_stays_pinned() -> None:
    """A40"""
    run = AgentRun.new("question")
    assert run.pin_output_tool(None) is None
    assert run.pin_output_tool("first") == "first"
    assert run.pin_output_tool("second") == "first"
    with pytest.raises(ValueError, match="at least 1 character"):
        run.pin_output_tool("")


def test_a_run_loaded_while_a_call_was_out_asks_for_it_again_once() -> None:
    """A176"""
    run = AgentRun.new("question")
    first = expect_call_model(run)
    loaded = AgentRun.load(run.dump())
    twin = loaded.clone()
    for restored in (loaded, twin):
        assert restored.next_step() == first
        assert restored.turn() == 1
        with pytest.raises(ProtocolViolation, match="a model response is pending"):
            restored.next_step()


def test_a_clone_goes_its_own_way() -> None:
    """A204 and agent-run.md 5.1"""
    run = in_batch(call("a"))
    twin = run.clone()
    assert twin == run
    assert twin != "a run"
    twin.tool_results([result("a", "1")])
    assert twin != run
    assert run.state() == "executing_tools"
    run.clone_from(twin)
    assert run == twin
    with pytest.raises(TypeError, match="cannot be hashed"):
        hash(run)


def test_a_representation_shows_no_content() -> None:
    run = in_batch(call("secret"))
    assert repr(run) == "<AgentRun executing_tools turn=1 messages=2 calls=1>"


def test_a_wrong_argument_is_a_value_error_in_any_state() -> None:
    """agent-run.md 2.5"""
    run = started()
    before, wrong = run.dump(), cast("Any", object())
    for method in (
        run.model_response, run.streamed_turn, run.resolve_invalid_tool_call, run.tool_results,
        run.retry_model_turn, run.replace_accepted_turn, run.answer_tool_calls, run.append_entry,
        run.answer_tool_call, run.set_previous_model, run.cancel_error, run.effective_policy,
        run.malformed_tool_call_context, run.clone_from, run.record_streamed_completion_call,
    ):  # fmt: skip
        with pytest.raises(ValueError, match=r"expected|Input should be"):
            method(wrong)
    assert run.dump() == before


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
