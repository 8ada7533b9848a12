"""The words of streaming: what arrives, what the assembler reports, what a decision leads to.

Stream items are made once per token, so they are plain frozen models: no validators, no defaults
that are computed. The assembler itself is `assembler`; these types know nothing of it.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from app.engine.json.text import JsonValue
from app.engine.messages import AssistantContent, Reasoning, ToolCall, ToolResult
from app.engine.turn_policy import TurnPolicy
from app.engine.usage import FinishReason, Usage
from app.engine.value import Count, NonEmpty, Value


class TextItem(Value):
    """A piece of text."""

    type: Literal["text"] = "text"
    text: str


class ReasoningItem(Value):
    """A complete block of reasoning; `correlator` ties it to its deltas."""

    type: Literal["reasoning"] = "reasoning"
    correlator: str
    reasoning: Reasoning


class ReasoningDeltaItem(Value):
    """A piece of reasoning."""

    type: Literal["reasoning_delta"] = "reasoning_delta"
    correlator: str
    text: str
    provider_id: str | None = None


class ToolCallItem(Value):
    """A complete call; `internal_call_id` ties it to its deltas."""

    type: Literal["tool_call"] = "tool_call"
    tool_call: ToolCall
    internal_call_id: NonEmpty


class ToolCallNameItem(Value):
    """The name of a call whose arguments are still arriving."""

    type: Literal["tool_call_name"] = "tool_call_name"
    internal_call_id: NonEmpty
    name: str


class ToolCallArgumentsItem(Value):
    """A piece of the arguments of a call."""

    type: Literal["tool_call_arguments"] = "tool_call_arguments"
    internal_call_id: NonEmpty
    delta: str


class FinalItem(Value):
    """The terminal record of the stream; a stream without one was cut."""

    type: Literal["final"] = "final"
    usage: Usage = Usage()
    message_id: str | None = None
    response_id: str | None = None
    provider_request_id: str | None = None
    finish_reason: FinishReason | None = None
    raw: JsonValue


class UnknownItem(Value):
    """Something of the provider that the engine has no word for."""

    type: Literal["unknown"] = "unknown"
    payload: JsonValue


StreamItem = Annotated[
    TextItem
    | ReasoningItem
    | ReasoningDeltaItem
    | ToolCallItem
    | ToolCallNameItem
    | ToolCallArgumentsItem
    | FinalItem
    | UnknownItem,
    Field(discriminator="type"),
]


class StreamedInvalidToolCall(Value):
    """A call the stream was stopped at; `args` are its arguments as streamed so far."""

    tool_call: ToolCall
    internal_call_id: NonEmpty
    args: str | None = None
    policy: TurnPolicy


class EmitIngested(Value):
    """Forward the item that was ingested."""

    event: Literal["emit_ingested"] = "emit_ingested"


class EmitToolCallDelta(Value):
    """Forward this piece of a call."""

    event: Literal["emit_tool_call_delta"] = "emit_tool_call_delta"
    internal_call_id: NonEmpty
    kind: Literal["name", "arguments"]
    value: str


class InvalidToolCall(Value):
    """A call is not allowed: decide on it before the stream goes on."""

    event: Literal["invalid_tool_call"] = "invalid_tool_call"
    invalid: StreamedInvalidToolCall


class Completed(Value):
    """The terminal record arrived; `emit_final`: text was seen since the last one."""

    event: Literal["completed"] = "completed"
    usage: Usage
    emit_final: bool
    finish_reason: FinishReason | None = None


StreamedTurnEvent = Annotated[
    EmitIngested | EmitToolCallDelta | InvalidToolCall | Completed, Field(discriminator="event")
]


class PartialStreamedTurn(Value):
    """What was assembled up to an invalid call; `text` is None if none was seen."""

    message_id: str | None = None
    text: str | None = None
    reasoning: tuple[Reasoning, ...] = ()
    tool_calls: tuple[ToolCall, ...] = ()


class InternalCallId(Value):
    """The stream's own id of the call at a position of the content."""

    position: Count
    internal_call_id: NonEmpty


class StreamedTurn(Value):
    """A completely assembled turn."""

    message_id: str | None = None
    choice: tuple[AssistantContent, ...]
    policy: TurnPolicy
    internal_call_ids: tuple[InternalCallId, ...] = ()
    finish_reason: FinishReason | None = None

    @model_validator(mode="after")
    def _internal_ids_belong_to_calls(self) -> StreamedTurn:
        positions = [known.position for known in self.internal_call_ids]
        calls = {at for at, part in enumerate(self.choice) if isinstance(part, ToolCall)}
        if positions != sorted(set(positions)) or not calls.issuperset(positions):
            raise ValueError("internal_call_ids: expected positions of calls, in order")
        return self


class Repaired(Value):
    """The call goes on under this name."""

    kind: Literal["repaired"] = "repaired"
    tool_name: str


class TurnAbandoned(Value):
    """The turn is over: drain the stream for its usage, then `next_step`."""

    kind: Literal["turn_abandoned"] = "turn_abandoned"
    skipped_tool_result: ToolResult | None = None


class Ignored(Value):
    """The call is dropped and the stream goes on."""

    kind: Literal["ignored"] = "ignored"


StreamedResolution = Annotated[Repaired | TurnAbandoned | Ignored, Field(discriminator="kind")]
