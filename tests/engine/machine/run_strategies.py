"""What a model, a host and a tool may come up with, for generated runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import strategies as st

from app.engine.agent_run import AgentRun
from app.engine.commands import (
    Fail,
    Feedback,
    Ignore,
    InvalidToolCallAction,
    ModelTurn,
    Repair,
    Repeat,
    Retry,
    RetryRequest,
    Skip,
    Stop,
)
from app.engine.messages import AssistantImage
from app.engine.turn_policy import ToolChoice, TurnPolicy
from app.engine.usage import FinishReason, Usage
from tests.engine.run_driving import call, malformed, text, thought

if TYPE_CHECKING:
    from app.engine.messages import AssistantContent, ToolCall

IDS = st.sampled_from(["a", "b", "c"])
NAMES = st.sampled_from(["add", "add", "add", "subtract", "unknown", "final_result"])
WORDS = st.sampled_from(["", "hi", "{}", '{"x": 1}'])
CALLS: st.SearchStrategy[ToolCall] = st.one_of(
    st.builds(call, IDS, NAMES),
    st.builds(malformed, IDS, st.sampled_from(["[1]", "{", "null"]), NAMES),
)
PARTS: st.SearchStrategy[AssistantContent] = st.one_of(
    CALLS,
    CALLS,
    st.builds(text, WORDS),
    st.builds(thought, WORDS),
    st.just(AssistantImage(source="data:x")),
)
CONTENTS: st.SearchStrategy[tuple[AssistantContent, ...]] = st.lists(PARTS, max_size=4).map(tuple)
CHOICES = st.sampled_from(
    [
        None,
        None,
        ToolChoice(mode="auto"),
        ToolChoice(mode="none"),
        ToolChoice(mode="specific", names=("add",)),
    ]
)
POLICIES = st.builds(
    TurnPolicy,
    executable_tools=st.just(("add", "subtract")),
    tool_choice=CHOICES,
    output_tool=st.sampled_from([None, "final_result"]),
    output_tool_withheld=st.sampled_from([False, False, True]),
)
USAGES = st.builds(Usage, input_tokens=st.integers(0, 9), output_tokens=st.integers(0, 9))
FINISHES = st.sampled_from(
    [
        *(None, None, None, FinishReason(kind="stop"), FinishReason(kind="stop")),
        FinishReason(kind="length"),
        FinishReason(kind="content_filter"),
        FinishReason(kind="failed", detail="overloaded"),
    ]
)
TURNS = st.builds(
    ModelTurn,
    choice=CONTENTS,
    policy=POLICIES,
    usage=USAGES,
    finish_reason=FINISHES,
    raw=st.sampled_from([None, {"body": [1]}]),
)
MENDING: st.SearchStrategy[InvalidToolCallAction] = st.one_of(
    st.builds(Retry, feedback=WORDS),
    st.builds(Repair, tool_name=NAMES),
    st.builds(Skip, reason=WORDS),
    st.just(Ignore()),
)
ACTIONS: st.SearchStrategy[InvalidToolCallAction] = st.one_of(
    MENDING, MENDING, MENDING, MENDING, MENDING, st.just(Fail()), st.builds(Stop, reason=WORDS)
)
REQUESTS: st.SearchStrategy[RetryRequest] = st.one_of(
    st.just(Repeat()), st.builds(Feedback, text=WORDS)
)
SCHEMAS = st.sampled_from([None, {"required": ["x"]}, {"properties": {"x": {"type": "string"}}}])


@st.composite
def new_runs(draw: st.DrawFn) -> AgentRun:
    """A run with some shape and some budgets."""
    run = AgentRun.new("question").max_turns(draw(st.integers(0, 8)))
    run.max_invalid_tool_call_retries(draw(st.integers(0, 3)))
    run.max_consecutive_malformed_tool_calls(draw(st.sampled_from([None, None, 0, 1])))
    run.with_output_validation(draw(SCHEMAS), draw(st.integers(0, 2)))
    run.with_tool_choice(draw(CHOICES))
    run.with_unhandled_invalid_tool_call(draw(st.sampled_from(["fail", "ignore"])))
    return run
