from __future__ import annotations

import pytest

from app.engine.agent_run import AgentRun
from app.engine.commands import (
    Skip,
)
from app.engine.errors import (
    CompletionError,
    MaxTurnsError,
    ProtocolViolation,
    UnknownToolCall,
)
from app.engine.messages import AssistantContent, UserMessage
from app.engine.texts import NOT_EXECUTED
from app.engine.turn_policy import TurnPolicy
from app.engine.usage import FinishReason
from tests.engine.run_driving import (
    answered,
    call,
    expect_call_model,
    expect_call_tools,
    expect_done,
    malformed,
    result,
    result_texts,
    started,
    text,
    thought,
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


LENGTH, FILTERED = FinishReason(kind="length"), FinishReason(kind="content_filter")


@pytest.mark.parametrize("content", [(), (thought("why"),), (thought("why"), text(""))])
def test_a_turn_cut_before_it_answered_is_an_error(content: tuple[AssistantContent, ...]) -> None:
    """A96, A97, A98, A99"""
    for finish, advice in ((LENGTH, True), (FILTERED, False)):
        run = started()
        run.model_response(turn(*content, finish=finish))
        with pytest.raises(CompletionError, match=finish.kind) as caught:
            run.next_step()
        assert ("max_tokens" in str(caught.value)) is advice
        assert run.messages() == (QUESTION,)
        assert run.state() == "failed"


def test_a_turn_cut_after_it_answered_is_an_answer() -> None:
    """A100, A101, A109"""
    run = started()
    run.model_response(turn(thought("why"), text("a partial ans"), finish=LENGTH))
    assert expect_done(run).output == "a partial ans"
    with_call = started(2)
    with_call.model_response(turn(call("a"), finish=LENGTH))
    assert [one.tool_call for one in expect_call_tools(with_call).calls] == [call("a")]


def test_an_empty_answer_stays_out_of_history() -> None:
    """A102, A103"""
    run = started()
    run.model_response(turn(finish=FinishReason(kind="other")))
    assert (expect_done(run).output, run.messages()) == ("", (QUESTION,))
    reasoned = started()
    reasoned.model_response(turn(thought("why"), finish=FinishReason(kind="stop")))
    assert (expect_done(reasoned).output, len(reasoned.messages())) == ("", 2)


def test_a_skipped_call_takes_its_siblings_with_it() -> None:
    """A18, A121"""
    run = started(2)
    answered(run, call("a", "unknown"), call("b"))
    run.resolve_invalid_tool_call(Skip(reason="not available"))
    assert result_texts(expect_call_model(run).prompt) == ["not available", NOT_EXECUTED]


def test_malformed_turns_in_a_row_are_counted_and_a_good_one_forgives() -> None:
    """A167, A168"""
    run = started(9).max_consecutive_malformed_tool_calls(1)
    for content in (malformed("a"), call("b"), malformed("c")):
        answered(run, content)
        expect_call_tools(run)
        run.tool_results([result("b", "1")] if content == call("b") else [])
        expect_call_model(run)
    answered(run, malformed("d"))
    with pytest.raises(CompletionError, match="2 consecutive turns"):
        run.next_step()


def test_output_mode_is_looked_at_before_real_calls() -> None:
    """A33, A35"""
    policy = TurnPolicy(executable_tools=("add",), output_tool="final_result")
    run = AgentRun.new("question").max_turns(3).with_output_validation(None, 1)
    expect_call_model(run)
    run.model_response(turn(text("prose"), policy=policy))
    assert expect_call_model(run).turn == 2
    run.model_response(turn(call("a"), call("b", "final_result"), policy=policy))
    assert expect_done(run).output == '{"x":1}'
    strict = AgentRun.new("question").max_turns(3).with_output_validation({"required": ["y"]}, 1)
    expect_call_model(strict)
    strict.model_response(turn(call("a", "final_result"), policy=policy))
    assert expect_call_model(strict).turn == 2
    assert expect_done(run) == run.response()


def test_no_step_follows_from_a_state_that_waits_or_has_failed() -> None:
    """A13, A22"""
    run = started()
    with pytest.raises(ProtocolViolation, match="a model response is pending"):
        run.next_step()
    answered(run, call("a", "unknown"))
    with pytest.raises(ProtocolViolation, match="resolve_invalid_tool_call"):
        run.next_step()
    with pytest.raises(UnknownToolCall):
        run.resolve_unhandled_invalid_tool_call()
    with pytest.raises(ProtocolViolation, match="next_step called after the run already failed"):
        run.next_step()


def test_a_step_can_be_asked_for_again() -> None:
    """A24, A25, A176"""
    run = AgentRun.new("question").max_turns(2)
    first = expect_call_model(run)
    run = AgentRun.load(run.dump())
    assert expect_call_model(run) == first
    answered(run, call("a"))
    assert expect_call_tools(run) == expect_call_tools(run)
    run.tool_results([result("a", "1")])
    expect_call_model(run)
    answered(run, text("done"))
    assert expect_done(run) == expect_done(run)
    assert expect_done(AgentRun.load(run.dump())) == expect_done(run)


def test_a_failed_call_quotes_its_detail() -> None:
    """A158"""
    run = started()
    run.model_response(turn(text("a"), finish=FinishReason(kind="failed", detail="overloaded")))
    with pytest.raises(CompletionError, match="the model call failed: overloaded"):
        run.next_step()
