"""Which decisions on an invalid call are accepted (agent-run.md 6.1), as a table."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from app.engine.commands import (
    Fail,
    Ignore,
    InvalidToolCallAction,
    Repair,
    Retry,
    Skip,
    Stop,
)
from app.engine.errors import PromptCancelled, UnknownToolCall
from app.engine.machine.invalid_calls import InvalidCall, decide
from app.engine.machine.record import RunConfig, RunCounters, RunRecord
from app.engine.messages import AssistantMessage, UserMessage
from app.engine.turn_policy import ToolChoice, TurnPolicy
from tests.engine.run_driving import call

QUESTION = UserMessage.of_text("question")
TOOLS = ("add", "subtract")
ADD_ONLY = ToolChoice(mode="specific", names=("add",))
NONE = ToolChoice(mode="none")


def invalid(name: str, choice: ToolChoice | None) -> InvalidCall:
    rejected = call("call_1", name)
    return InvalidCall(
        call=rejected,
        policy=TurnPolicy(executable_tools=TOOLS, tool_choice=choice),
        history=(QUESTION, AssistantMessage(content=(rejected,))),
        args=rejected.arguments_text,
    )


def record(retries_left: int) -> RunRecord:
    return RunRecord(
        config=RunConfig(max_invalid_tool_call_retries=2),
        messages=(QUESTION,),
        counters=RunCounters(invalid_tool_call_retries=2 - retries_left),
    )


@dataclass(frozen=True)
class Case:
    id: str
    action: InvalidToolCallAction
    refused_name: str | None = None
    choice: ToolChoice | None = None
    retries_left: int = 1


@pytest.mark.parametrize(
    "case",
    [
        Case("fail", Fail(), "unknown"),
        Case("retry", Retry(feedback="f")),
        Case("retry-under-none", Retry(feedback="f"), choice=NONE),
        Case("retry-over-budget", Retry(feedback="f"), "unknown", retries_left=0),
        Case("repair", Repair(tool_name="add")),
        Case("repair-to-unknown", Repair(tool_name="absent"), "absent"),
        Case("repair-to-disallowed", Repair(tool_name="subtract"), "subtract", ADD_ONLY),
        Case("repair-under-none", Repair(tool_name="add"), "add", NONE),
        Case("skip", Skip(reason="r")),
        Case("skip-under-specific", Skip(reason="r"), choice=ADD_ONLY),
        Case("skip-under-none", Skip(reason="r"), "unknown", NONE),
        Case("ignore", Ignore()),
        Case("ignore-under-none", Ignore(), choice=NONE),
    ],
    ids=lambda case: case.id,
)
def test_an_action_is_accepted_or_ends_the_run(case: Case) -> None:
    """A20, A87, A88, A118, A119, A122, A123, A125, A131"""
    found = decide(record(case.retries_left), invalid("unknown", case.choice), action=case.action)
    if case.refused_name is None:
        assert found == case.action
    else:
        assert isinstance(found, UnknownToolCall)
        assert (found.tool_name, found.reason) == (case.refused_name, "unknown_tool")
        assert found.available_tools == TOOLS
        assert len(found.chat_history) == 2


def test_a_stop_leaves_the_turn_out_of_the_history() -> None:
    """A132"""
    found = decide(record(1), invalid("unknown", None), action=Stop(reason="enough"))
    assert type(found) is PromptCancelled
    assert (found.reason, found.chat_history) == ("enough", (QUESTION,))


def test_a_tool_that_was_offered_is_disallowed_and_any_other_unknown() -> None:
    """A172"""
    assert invalid("subtract", ADD_ONLY).reason == "disallowed_by_tool_choice"
    assert invalid("absent", ADD_ONLY).reason == "unknown_tool"


def test_the_context_shows_the_call_and_its_policy() -> None:
    context = invalid("subtract", ADD_ONLY).context()
    assert (context.tool_call_id, context.args) == ("call_1", '{"x":1}')
    assert (context.available_tools, context.allowed_tools) == (TOOLS, ("add",))
    assert (context.tool_choice, context.is_streaming) == (ADD_ONLY, False)
    assert context.error is context.internal_call_id is None
