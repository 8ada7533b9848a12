from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import pytest

from app.engine.agent_run import AgentRun
from app.engine.errors import NonCanonicalHistory, ProtocolViolation
from app.engine.messages import AssistantMessage, UserMessage, UserText
from app.engine.turn_policy import ToolChoice
from tests.engine.run_driving import answered, expect_call_model, expect_done, result, started, text

if TYPE_CHECKING:
    from collections.abc import Callable

HISTORY = (UserMessage.of_text("earlier"), AssistantMessage(content=(text("reply"),)))


def test_a_new_run_holds_its_prompt_and_nothing_else() -> None:
    """agent-run.md 3"""
    run = AgentRun.new("hello")
    assert run.messages() == (UserMessage.of_text("hello"),)
    assert (run.turn(), run.state(), run.input_history()) == (0, "preparing_request", ())
    assert run.initial_prompt() == UserMessage.of_text("hello")
    parts = UserMessage(content=(UserText(text="a"), UserText(text="b")))
    assert AgentRun.new(parts).messages() == (parts,)


@pytest.mark.parametrize(
    "prompt",
    [AssistantMessage(content=(text("a"),)), None, UserMessage(content=(result("a", "1"),))],
)
def test_a_prompt_is_text_or_a_user_message_that_answers_nothing(prompt: object) -> None:
    with pytest.raises(ValueError, match=r"prompt: expected UserMessage|orphan"):
        AgentRun.new(cast("Any", prompt))


def test_builders_chain_and_are_stored() -> None:
    choice = ToolChoice(mode="required")
    run = (
        AgentRun.new("hello")
        .with_history(HISTORY)
        .max_turns(3)
        .max_invalid_tool_call_retries(2)
        .max_consecutive_malformed_tool_calls(1)
        .with_output_validation({"type": "object"}, 4)
        .with_tool_choice(choice)
        .with_output_tool_name("final_result")
        .with_unhandled_invalid_tool_call("ignore")
    )
    assert run.input_history() == HISTORY
    assert run.dump()["config"] == {
        "max_turns": 3,
        "max_invalid_tool_call_retries": 2,
        "max_consecutive_malformed_tool_calls": 1,
        "unhandled_invalid_tool_call": "ignore",
        "tool_choice": {"mode": "required", "names": []},
        "output_tool_name": "final_result",
        "output_schema": {"type": "object"},
        "max_output_retries": 4,
    }


def test_a_later_history_replaces_the_earlier_one() -> None:
    run = AgentRun.new("hello").with_history(HISTORY).with_history(())
    assert run.input_history() == ()


@pytest.mark.parametrize("budget", [-1, True, 1.0, "1"])
def test_a_budget_is_a_natural_number(budget: object) -> None:
    """agent-run.md 3"""
    run = AgentRun.new("hello")
    wrong = cast("Any", budget)
    for builder in (
        run.max_turns,
        run.max_invalid_tool_call_retries,
        run.max_consecutive_malformed_tool_calls,
        lambda retries: run.with_output_validation(None, retries),
    ):
        with pytest.raises(ValueError, match="Input should be"):
            builder(wrong)


def test_unusable_settings_are_refused() -> None:
    run = AgentRun.new("hello")
    with pytest.raises(ValueError, match="not part of the schema"):
        run.with_output_validation({"$ref": "https://example.org/s"}, 1)
    with pytest.raises(ValueError, match="at least 1 character"):
        run.with_output_tool_name("")
    with pytest.raises(ValueError, match="Input should be"):
        run.with_unhandled_invalid_tool_call(cast("Any", "stop"))
    with pytest.raises(NonCanonicalHistory):
        run.with_history((HISTORY[1], HISTORY[1]))
    assert run == AgentRun.new("hello")


def test_a_schema_given_by_the_host_stays_its_own() -> None:
    """A204"""
    schema: dict[str, Any] = {"required": []}
    run = AgentRun.new("hello").with_output_validation(schema, 1)
    before = run.dump()
    schema["required"].append("a")
    assert run.dump() == before


def test_shapes_are_set_before_the_start_only() -> None:
    """A197"""
    run = started()
    before = run.dump()
    builds: tuple[Callable[[], AgentRun], ...] = (
        lambda: run.with_history(HISTORY),
        lambda: run.with_output_validation(None, 1),
        lambda: run.with_tool_choice(None),
        lambda: run.with_output_tool_name("final_result"),
        lambda: run.with_unhandled_invalid_tool_call("ignore"),
        lambda: run.rewrite_initial_prompt("other"),
    )
    for build in builds:
        with pytest.raises(ProtocolViolation, match="called after the run started"):
            build()
    assert run.dump() == before
    assert run.initial_prompt() is None


def test_budgets_change_until_the_end() -> None:
    """A196, A197"""
    run = started()
    run.max_turns(5)
    answered(run, text("done"))
    expect_done(run)
    with pytest.raises(ProtocolViolation, match="max_turns called after the run ended"):
        run.max_turns(6)


def test_a_rewritten_prompt_is_the_one_that_is_sent() -> None:
    """A154"""
    run = AgentRun.new("hello").rewrite_initial_prompt("other")
    assert expect_call_model(run).prompt == UserMessage.of_text("other")
