"""The words of the conversation between a driver and `AgentRun`.

Commands (`AgentRunStep`) go out; outcomes, contexts and pending calls go out; model turns, answers,
actions and requests come in. All unions are closed: a driver handles every member and ends its
`match` in `assert_never`. Everything here can be stored as JSON, so a host can keep one in flight.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator
from typing_extensions import override

from app.engine.json.text import JsonValue
from app.engine.messages import (
    AssistantContent,
    Message,
    ToolCall,
    ToolResultContent,
    ToolResultText,
    UserMessage,
)
from app.engine.turn_policy import ToolChoice, TurnPolicy
from app.engine.usage import FinishReason, Usage
from app.engine.value import Count, NonEmpty, Value


class ModelTurn(Value):
    """The complete answer to one model call. `raw` is the provider's body, or None if unwanted."""

    choice: tuple[AssistantContent, ...]
    usage: Usage = Usage()
    policy: TurnPolicy
    message_id: str | None = None
    response_id: str | None = None
    provider_request_id: str | None = None
    finish_reason: FinishReason | None = None
    raw: JsonValue


class CompletionCall(Value):
    """The record of one completed model call; `call_index` counts from 0 within the run."""

    call_index: Count
    usage: Usage
    message_id: str | None = None
    response_id: str | None = None
    provider_request_id: str | None = None
    finish_reason: FinishReason | None = None
    raw: JsonValue


class PromptResponse(Value):
    """The outcome of a run that is done; `messages` are those of this run only."""

    output: str
    content: tuple[AssistantContent, ...]
    usage: Usage
    completion_calls: tuple[CompletionCall, ...]
    messages: tuple[Message, ...]
    # Counts the calls of the output tool in the last turn; kept in memory only.
    output_tool_calls: int = Field(default=0, exclude=True)

    def requests(self) -> int:
        """The number of completed model calls."""
        return len(self.completion_calls)

    @override
    def __eq__(self, other: object) -> bool:
        return isinstance(other, PromptResponse) and (
            {**dict(self), "output_tool_calls": 0} == {**dict(other), "output_tool_calls": 0}
        )

    __hash__ = Value.__hash__


class PendingToolCall(Value):
    """One open call of a batch. `malformed` calls never run; they are answered with an action."""

    turn: Count
    position: Count
    kind: Literal["execute", "malformed"]
    tool_call: ToolCall
    error: str | None = None
    internal_call_id: str | None = None

    @model_validator(mode="after")
    def _kind_fits_the_arguments(self) -> PendingToolCall:
        error = self.tool_call.function.error
        if self.error != error or (self.kind == "malformed") != (error is not None):
            raise ValueError("kind: expected the kind and the error of the call's arguments")
        return self

    @classmethod
    def of(
        cls, call: ToolCall, *, turn: int, position: int, internal_call_id: str | None
    ) -> PendingToolCall:
        """The pending form of the call at `position` of the content of `turn`."""
        return cls(
            turn=turn,
            position=position,
            kind="malformed" if call.is_malformed else "execute",
            tool_call=call,
            error=call.function.error,
            internal_call_id=internal_call_id,
        )

    def answer(self, content: str | tuple[ToolResultContent, ...]) -> ToolAnswer:
        """The answer of an executed call; a `str` stands for one text."""
        if isinstance(content, str):
            content = (ToolResultText(text=content),)
        return ToolAnswer(
            turn=self.turn, position=self.position, call=self.tool_call.id, content=content
        )

    def answer_malformed(self, action: InvalidToolCallAction | None = None) -> ToolAnswer:
        """The answer of a malformed call; no action means the fixed text of the engine."""
        return ToolAnswer(
            turn=self.turn, position=self.position, call=self.tool_call.id, action=action
        )


class ToolAnswer(Value):
    """The answer to one pending call: content if it ran, else an action or nothing."""

    turn: Count
    position: Count
    call: NonEmpty
    content: Annotated[tuple[ToolResultContent, ...], Field(min_length=1)] | None = None
    action: InvalidToolCallAction | None = None

    @model_validator(mode="after")
    def _content_or_action(self) -> ToolAnswer:
        if self.content is not None and self.action is not None:
            raise ValueError("expected content or an action, found both")
        return self


class CallModel(Value):
    """Send `history` and then `prompt` to the model."""

    step: Literal["call_model"] = "call_model"
    prompt: UserMessage
    history: tuple[Message, ...]
    turn: Count


class CallTools(Value):
    """Answer the open calls. `final_turn`: no model call will see the results."""

    step: Literal["call_tools"] = "call_tools"
    turn: Count
    calls: tuple[PendingToolCall, ...] = Field(min_length=1)
    final_turn: bool


class Done(Value):
    """The run is over and well."""

    step: Literal["done"] = "done"
    response: PromptResponse


AgentRunStep = Annotated[CallModel | CallTools | Done, Field(discriminator="step")]


class InvalidToolCallContext(Value):
    """All that is known about a call which must not run as it is, for whoever decides on it."""

    tool_name: str
    reason: Literal["unknown_tool", "disallowed_by_tool_choice", "malformed_arguments"]
    error: str | None = None
    tool_call_id: str | None = None
    internal_call_id: str | None = None
    args: str | None = None
    available_tools: tuple[str, ...]
    allowed_tools: tuple[str, ...]
    tool_choice: ToolChoice | None = None
    chat_history: tuple[Message, ...]
    is_streaming: bool


class Continue(Value):
    """The turn was accepted; go on with `next_step`."""

    outcome: Literal["continue"] = "continue"
    response_hook_suppressed: bool


class NeedsResolution(Value):
    """The turn holds an invalid call; decide on it."""

    outcome: Literal["needs_resolution"] = "needs_resolution"
    context: InvalidToolCallContext


class TurnRetried(Value):
    """The turn was rejected with feedback; go on with `next_step`."""

    outcome: Literal["turn_retried"] = "turn_retried"


ModelTurnOutcome = Annotated[
    Continue | NeedsResolution | TurnRetried, Field(discriminator="outcome")
]


class Fail(Value):
    """End the run with an error."""

    kind: Literal["fail"] = "fail"


class Retry(Value):
    """Reject the turn and tell the model why."""

    kind: Literal["retry"] = "retry"
    feedback: str


class Repair(Value):
    """Let the call pass under another name."""

    kind: Literal["repair"] = "repair"
    tool_name: str


class Skip(Value):
    """Answer the call with the reason and run nothing of its turn."""

    kind: Literal["skip"] = "skip"
    reason: str


class Stop(Value):
    """Cancel the run."""

    kind: Literal["stop"] = "stop"
    reason: str


class Ignore(Value):
    """Drop the call from its turn."""

    kind: Literal["ignore"] = "ignore"


InvalidToolCallAction = Annotated[
    Fail | Retry | Repair | Skip | Stop | Ignore, Field(discriminator="kind")
]


class Repeat(Value):
    """Ask for the turn again as if it had not been answered."""

    kind: Literal["repeat"] = "repeat"


class Feedback(Value):
    """Keep the answer and ask for a better one."""

    kind: Literal["feedback"] = "feedback"
    text: str


RetryRequest = Annotated[Repeat | Feedback, Field(discriminator="kind")]


class RunEntry(Value):
    """A record of the host, kept with the run and never shown to a model."""

    kind: str
    turn: Count
    value: JsonValue


# The answers name the actions, which read better after the commands they answer.
PendingToolCall.model_rebuild()
ToolAnswer.model_rebuild()
CallTools.model_rebuild()
