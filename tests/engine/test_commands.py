from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import TypeAdapter, ValidationError

from app.engine.commands import (
    AgentRunStep,
    CallModel,
    CallTools,
    CompletionCall,
    Continue,
    Done,
    Fail,
    Feedback,
    Ignore,
    InvalidToolCallAction,
    InvalidToolCallContext,
    ModelTurn,
    ModelTurnOutcome,
    NeedsResolution,
    PendingToolCall,
    PromptResponse,
    Repair,
    Repeat,
    Retry,
    RetryRequest,
    RunEntry,
    Skip,
    Stop,
    ToolAnswer,
    TurnRetried,
)
from app.engine.messages import ToolResultText, UserMessage
from app.engine.streaming.items import (
    Completed,
    EmitIngested,
    EmitToolCallDelta,
    Ignored,
    InternalCallId,
    InvalidToolCall,
    PartialStreamedTurn,
    Repaired,
    StreamedInvalidToolCall,
    StreamedResolution,
    StreamedTurn,
    StreamedTurnEvent,
    TurnAbandoned,
)
from app.engine.turn_policy import ToolChoice
from app.engine.usage import FinishReason, Usage
from tests.engine.run_driving import ADD, call, malformed, result, text, thought, turn

if TYPE_CHECKING:
    from app.engine.value import Value

PROMPT = UserMessage.of_text("question")
EXECUTE = PendingToolCall.of(call("a"), turn=1, position=0, internal_call_id="i")
MALFORMED = PendingToolCall.of(malformed("b"), turn=1, position=1, internal_call_id=None)
CONTEXT = InvalidToolCallContext(
    tool_name="add",
    reason="unknown_tool",
    available_tools=("add",),
    allowed_tools=(),
    tool_choice=ToolChoice(mode="none"),
    chat_history=(PROMPT,),
    is_streaming=False,
)
RECORD = CompletionCall(
    call_index=0, usage=Usage(), finish_reason=FinishReason(kind="stop"), raw={"a": [1]}
)
RESPONSE = PromptResponse(
    output="a", content=(text("a"),), usage=Usage(), completion_calls=(RECORD,), messages=(PROMPT,)
)
INVALID = StreamedInvalidToolCall(tool_call=call("a"), internal_call_id="i", args="{}", policy=ADD)

UNIONS: list[tuple[Any, list[Value]]] = [
    (
        AgentRunStep,
        [
            CallModel(prompt=PROMPT, history=(PROMPT,), turn=1),
            CallTools(turn=1, calls=(EXECUTE, MALFORMED), final_turn=True),
            Done(response=RESPONSE),
        ],
    ),
    (
        ModelTurnOutcome,
        [
            Continue(response_hook_suppressed=True),
            NeedsResolution(context=CONTEXT),
            TurnRetried(),
        ],
    ),
    (
        InvalidToolCallAction,
        [
            Fail(),
            Retry(feedback="f"),
            Repair(tool_name="add"),
            Skip(reason="r"),
            Stop(reason="r"),
            Ignore(),
        ],
    ),
    (RetryRequest, [Repeat(), Feedback(text="t")]),
    (
        StreamedTurnEvent,
        [
            EmitIngested(),
            EmitToolCallDelta(internal_call_id="i", kind="name", value="add"),
            InvalidToolCall(invalid=INVALID),
            Completed(usage=Usage(), emit_final=True),
        ],
    ),
    (
        StreamedResolution,
        [Repaired(tool_name="add"), TurnAbandoned(skipped_tool_result=result("a", "1")), Ignored()],
    ),
    (ModelTurn, [turn(thought("why"), call("a"), raw={"a": [1]})]),
    (PendingToolCall, [EXECUTE, MALFORMED]),
    (ToolAnswer, [EXECUTE.answer("1"), MALFORMED.answer_malformed(Skip(reason="r"))]),
    (RunEntry, [RunEntry(kind="note", turn=0, value=None)]),
    (PartialStreamedTurn, [PartialStreamedTurn(text="a", tool_calls=(call("a"),))]),
    (
        StreamedTurn,
        [
            StreamedTurn(
                choice=(text("a"), call("a")),
                policy=ADD,
                internal_call_ids=(InternalCallId(position=1, internal_call_id="i"),),
            )
        ],
    ),
]


@pytest.mark.parametrize(
    ("union", "value"),
    [
        pytest.param(union, value, id=type(value).__name__)
        for union, values in UNIONS
        for value in values
    ],
)
def test_everything_a_host_may_keep_in_flight_survives_json(union: Any, value: Value) -> None:
    """A157, P19"""
    adapter: TypeAdapter[Value] = TypeAdapter(union)
    assert adapter.validate_json(adapter.dump_json(value)) == value


@pytest.mark.parametrize("value", [turn(text("a")), RECORD])
def test_a_document_without_raw_is_refused(value: Value) -> None:
    """A46, A47"""
    document = value.model_dump(mode="json")
    del document["raw"]
    with pytest.raises(ValidationError, match="raw"):
        type(value).model_validate_json(json.dumps(document))


def test_a_response_shows_zero_usage_as_zeros() -> None:
    """A114"""
    written = RESPONSE.model_dump(mode="json")
    assert written["usage"] == {
        "input_tokens": 0,
        "output_tokens": 0,
        "total_tokens": 0,
        "cached_input_tokens": 0,
        "cache_creation_input_tokens": 0,
        "tool_use_prompt_tokens": 0,
        "reasoning_tokens": 0,
    }
    assert RESPONSE.requests() == 1
    assert "output_tool_calls" not in written


def test_a_pending_call_says_what_is_wrong_with_its_arguments() -> None:
    assert (EXECUTE.kind, EXECUTE.error) == ("execute", None)
    assert MALFORMED.kind == "malformed"
    assert MALFORMED.error == "expected a JSON object, found array"
    with pytest.raises(ValidationError, match="kind"):
        PendingToolCall(turn=1, position=0, kind="malformed", tool_call=call("a"))


def test_an_answer_carries_the_key_of_its_call() -> None:
    content = (ToolResultText(text="1"),)
    expected = ToolAnswer(turn=1, position=0, call="a", content=content)
    assert EXECUTE.answer("1") == EXECUTE.answer(content) == expected
    assert MALFORMED.answer_malformed() == ToolAnswer(turn=1, position=1, call="b")


def test_an_answer_is_content_or_an_action() -> None:
    with pytest.raises(ValidationError, match="found both"):
        ToolAnswer(
            turn=1,
            position=0,
            call="a",
            content=(ToolResultText(text="1"),),
            action=Ignore(),
        )
