"""Buffered runs, driven by hand. What the conformance cases script already is not repeated here."""

from __future__ import annotations

from typing import Any, cast

import pytest

from app.engine.agent_run import AgentRun
from app.engine.commands import (
    Ignore,
    NeedsResolution,
    Repeat,
    Retry,
    RunEntry,
    TurnRetried,
)
from app.engine.errors import UnknownToolCall
from app.engine.messages import UserMessage
from app.engine.usage import Usage
from tests.engine.run_driving import (
    answered,
    call,
    expect_call_model,
    expect_call_tools,
    expect_done,
    in_batch,
    result,
    started,
    stopped_at,
    streamed,
    text,
)

QUESTION = UserMessage.of_text("question")


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


def test_every_method_of_a_run_leads_on() -> None:
    """A7, A136, A147 and agent-run.md 13: one run through all that can be fed to it."""
    run = AgentRun.new("question").max_turns(9).max_invalid_tool_call_retries(2)
    expect_call_model(run)
    assert run.reissue().turn == 1
    run.record_streamed_completion_call(Usage())
    stopped = stopped_at(call("a", "unknown"))
    run.resolve_streamed_invalid_tool_call(*stopped, Retry(feedback="use add"))
    expect_call_model(run)
    assert isinstance(answered(run, call("b", "unknown")), NeedsResolution)
    assert run.resolve_invalid_tool_call(Retry(feedback="use add")) == TurnRetried()
    expect_call_model(run)
    answered(run, call("c", "unknown"), call("d"))
    with pytest.raises(UnknownToolCall):
        run.clone().resolve_unhandled_invalid_tool_call()
    run.resolve_invalid_tool_call(Ignore())
    run.answer_tool_call(expect_call_tools(run).calls[0].answer("1"))
    expect_call_model(run)
    run.streamed_turn(streamed(text("one")))
    run.retry_model_turn(Repeat())
    expect_call_model(run)
    answered(run, call("e"))
    expect_call_tools(run)
    run.tool_results([result("e", "2")])
    expect_call_model(run)
    answered(run, text("two"))
    run.replace_accepted_turn([text("three")])
    run = AgentRun.load(run.dump_json())
    response = expect_done(run)
    assert (response.output, response.requests(), run.turn()) == ("three", 6, 6)
