"""Invalid calls of buffered turns. What the conformance cases script is not repeated here."""

from __future__ import annotations

import pytest

from app.engine import texts
from app.engine.agent_run import AgentRun
from app.engine.commands import (
    Continue,
    Fail,
    Ignore,
    NeedsResolution,
    Repair,
    Retry,
    Skip,
    Stop,
    TurnRetried,
)
from app.engine.errors import (
    MaxTurnsError,
    PromptCancelled,
    ProtocolViolation,
    UnknownToolCall,
)
from app.engine.messages import AssistantMessage, ToolCall, UserMessage
from app.engine.turn_policy import ToolChoice, TurnPolicy
from app.engine.usage import Usage
from tests.engine.run_driving import (
    answered,
    call,
    expect_call_model,
    expect_call_tools,
    expect_done,
    malformed,
    result_texts,
    started,
    text,
    turn,
)

QUESTION = UserMessage.of_text("question")


def test_an_unknown_name_parks_the_run_and_fail_ends_it() -> None:
    """A12"""
    run = started()
    outcome = answered(run, call("call_1", "unknown"))
    assert isinstance(outcome, NeedsResolution)
    context = outcome.context
    assert (context.tool_name, context.reason) == ("unknown", "unknown_tool")
    assert context.available_tools == ("add",)
    assert not context.is_streaming
    assert len(context.chat_history) == 2
    with pytest.raises(UnknownToolCall) as caught:
        run.resolve_invalid_tool_call(Fail())
    assert caught.value.tool_name == "unknown"


def test_a_stop_cancels_with_its_reason_and_for_good() -> None:
    """A13, A132"""
    run = started()
    answered(run, call("call_1", "unknown"))
    with pytest.raises(PromptCancelled) as caught:
        run.resolve_invalid_tool_call(Stop(reason="operator stop"))
    assert caught.value.reason == "operator stop"
    assert caught.value.chat_history == (QUESTION,)
    with pytest.raises(ProtocolViolation, match="already failed"):
        run.next_step()


def test_a_retry_is_written_before_the_budget_of_turns_is_looked_at() -> None:
    """A15"""
    run = started().max_invalid_tool_call_retries(1)
    answered(run, call("call_1", "unknown"))
    assert run.resolve_invalid_tool_call(Retry(feedback="use add")) == TurnRetried()
    assert len(run.completion_calls()) == 1
    with pytest.raises(MaxTurnsError):
        run.next_step()
    assert run.turn() == 1


def test_skipped_calls_with_local_ids_are_told_apart() -> None:
    """A19"""
    run = started(2)
    calls = [
        ToolCall.from_wire(None, name, "{}", turn=1, position=position)
        for position, name in enumerate(("unknown", "add"))
    ]
    answered(run, *calls)
    run.resolve_invalid_tool_call(Skip(reason="not available"))
    prompt = expect_call_model(run).prompt
    assert result_texts(prompt) == ["not available", texts.NOT_EXECUTED]
    first, second = prompt.content
    assert first.type == second.type == "tool_result"
    assert first.call
    assert first.call != second.call
    assert first.provider is second.provider is None


def test_no_calls_allowed_means_every_call_is_disallowed() -> None:
    """A84"""
    run = started()
    policy = TurnPolicy(executable_tools=("add",), tool_choice=ToolChoice(mode="none"))
    run.model_response(turn(call("call_1"), policy=policy))
    with pytest.raises(UnknownToolCall) as caught:
        run.resolve_invalid_tool_call(Fail())
    error = caught.value
    assert (error.tool_name, error.reason) == ("add", "disallowed_by_tool_choice")
    assert (error.available_tools, error.allowed_tools) == (("add",), ())
    assert error.chat_history[-1] == AssistantMessage(content=(call("call_1"),))


def test_a_retry_without_a_budget_fails_on_the_emitted_name() -> None:
    """A87"""
    run = started()
    answered(run, call("call_1", "unknown"))
    with pytest.raises(UnknownToolCall) as caught:
        run.resolve_invalid_tool_call(Retry(feedback="use add"))
    assert caught.value.tool_name == "unknown"


def test_a_retry_survives_a_reload() -> None:
    """A91"""
    run = started(3).max_invalid_tool_call_retries(1)
    answered(run, call("call_1", "unknown"))
    run.resolve_invalid_tool_call(Retry(feedback="use add"))
    run = AgentRun.load(run.dump_json())
    step = expect_call_model(run)
    assert step.turn == 2
    assert result_texts(step.prompt) == ["use add"]
    assert step.history[-1] == AssistantMessage(content=(call("call_1", "unknown"),))
    answered(run, text("done"))
    assert expect_done(run).output == "done"


def test_an_undecided_call_fails_unless_the_run_was_told_to_ignore_it() -> None:
    """A117"""
    run = started()
    answered(run, call("call_1", "default_api"))
    with pytest.raises(UnknownToolCall) as caught:
        run.resolve_unhandled_invalid_tool_call()
    assert caught.value.available_tools == caught.value.allowed_tools == ("add",)
    assert caught.value.chat_history[-1].role == "assistant"
    lenient = AgentRun.new("question").with_unhandled_invalid_tool_call("ignore")
    expect_call_model(lenient)
    answered(lenient, call("call_1", "default_api"))
    outcome = lenient.resolve_unhandled_invalid_tool_call()
    assert outcome == Continue(response_hook_suppressed=False)


def test_a_later_retry_records_the_original_names() -> None:
    """A126"""
    run = started(2).max_invalid_tool_call_retries(1)
    answered(run, call("a", "first"), call("b", "second"))
    outcome = run.resolve_invalid_tool_call(Repair(tool_name="add"))
    assert isinstance(outcome, NeedsResolution)
    assert outcome.context.tool_name == "second"
    run.resolve_invalid_tool_call(Retry(feedback="use add"))
    step = expect_call_model(run)
    assert step.history[-1] == AssistantMessage(content=(call("a", "first"), call("b", "second")))
    assert result_texts(step.prompt) == [texts.NOT_EXECUTED, "use add"]


def test_a_skip_commits_its_results_even_when_no_turn_is_left() -> None:
    """A135"""
    run = started()
    answered(run, call("call_1", "unknown"))
    run.resolve_invalid_tool_call(Skip(reason="no"))
    with pytest.raises(MaxTurnsError) as caught:
        run.next_step()
    assert result_texts(caught.value.prompt) == ["no"]
    run.max_turns(2)
    assert expect_call_model(run).prompt == caught.value.prompt


def test_a_later_failure_commits_nothing() -> None:
    """A128"""
    run = started()
    answered(run, call("a", "first"), call("b", "second"))
    run.resolve_invalid_tool_call(Skip(reason="no"))
    with pytest.raises(UnknownToolCall) as caught:
        run.resolve_invalid_tool_call(Fail())
    assert caught.value.tool_name == "second"
    assert run.messages() == (QUESTION,)


def test_the_reasons_of_invalid_calls_differ() -> None:
    """A172"""
    policy = TurnPolicy(
        executable_tools=("add", "subtract"),
        tool_choice=ToolChoice(mode="specific", names=("add",)),
    )
    run = started(2)
    outcome = run.model_response(
        turn(call("a", "unknown"), call("b", "subtract"), malformed("c"), policy=policy)
    )
    assert isinstance(outcome, NeedsResolution)
    contexts = [outcome.context]
    outcome = run.resolve_invalid_tool_call(Repair(tool_name="add"))
    assert isinstance(outcome, NeedsResolution)
    contexts.append(outcome.context)
    run.resolve_invalid_tool_call(Repair(tool_name="add"))
    pending = expect_call_tools(run).calls[2]
    contexts.append(run.malformed_tool_call_context(pending))
    assert [(context.reason, context.error) for context in contexts] == [
        ("unknown_tool", None),
        ("disallowed_by_tool_choice", None),
        ("malformed_arguments", "expected a JSON object, found array"),
    ]
    assert contexts[-1].args == "[1]"
    assert contexts[-1].allowed_tools == ("add",)
    assert contexts[-1].available_tools == ("add", "subtract")
    assert contexts[-1].tool_choice == policy.tool_choice
    assert contexts[-1].chat_history == run.messages()


def test_a_turn_needs_a_pending_call_that_is_not_recorded_yet() -> None:
    """A22, A23"""
    run = AgentRun.new("question")
    with pytest.raises(ProtocolViolation, match="model_response called without a pending"):
        answered(run, text("a"))
    expect_call_model(run)
    run.record_streamed_completion_call(Usage())
    with pytest.raises(ProtocolViolation, match="after record_streamed_completion_call"):
        answered(run, text("a"))
    assert len(run.completion_calls()) == 1
    with pytest.raises(ProtocolViolation, match="without a pending invalid tool call"):
        run.resolve_invalid_tool_call(Fail())


def test_ignored_calls_leave_the_turn_and_positions_close_up() -> None:
    """A187"""
    run = started(2)
    answered(run, call("a", "unknown"), call("b"), call("c", "unknown"))
    run.resolve_invalid_tool_call(Ignore())
    assert run.resolve_invalid_tool_call(Ignore()) == Continue(response_hook_suppressed=False)
    (pending,) = expect_call_tools(run).calls
    assert (pending.position, pending.tool_call) == (0, call("b"))


def test_a_skip_after_an_ignored_call_finds_its_place() -> None:
    run = started(2)
    answered(run, call("a", "unknown"), call("b", "unknown"), call("c"))
    run.resolve_invalid_tool_call(Ignore())
    assert run.pending_invalid_tool_call() is not None
    outcome = run.resolve_invalid_tool_call(Skip(reason="no"))
    assert outcome == Continue(response_hook_suppressed=True)
    assert run.pending_invalid_tool_call() is None
    assert result_texts(expect_call_model(run).prompt) == ["no", texts.NOT_EXECUTED]


def test_a_repaired_call_runs_under_its_new_name() -> None:
    """A16, A85"""
    run = started(2)
    answered(run, text("note"), call("a", "default_api"))
    run.resolve_invalid_tool_call(Repair(tool_name="add"))
    assert expect_call_tools(run).calls[0].tool_call == call("a")
    assert run.messages()[-1] == AssistantMessage(content=(text("note"), call("a")))
