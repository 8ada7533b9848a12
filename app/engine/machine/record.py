"""Everything a run is, as one immutable record: the body of its document (agent-run.md 4 and 12).

A method of `AgentRun` computes the next record and puts it in place of the old one, so a method
that raises half-way has changed nothing, and a clone is the same record. Messages are shared
between records: a step costs one copy of a tuple of references, not one of the transcript.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from app.engine.commands import CompletionCall, RunEntry
from app.engine.errors import ProtocolViolation
from app.engine.history import text_result
from app.engine.json.text import JsonObject
from app.engine.messages import (
    AssistantContent,
    AssistantMessage,
    Message,
    ToolCall,
    ToolResult,
    UserMessage,
)
from app.engine.streaming.items import InternalCallId
from app.engine.texts import INTERRUPTED
from app.engine.turn_policy import ToolChoice, TurnPolicy
from app.engine.usage import Usage
from app.engine.value import Count, NonEmpty, Value

Content = tuple[AssistantContent, ...]
Unhandled = Literal["fail", "ignore"]


class PreparingRequest(Value):
    """Ready for the next model call; an abandoned stream may still owe its record."""

    name: Literal["preparing_request"] = "preparing_request"
    rollback_owed: bool = False


class AwaitingModel(Value):
    """A model call is out; `recorded`: its streamed record was made."""

    name: Literal["awaiting_model"] = "awaiting_model"
    recorded: bool = False


class SkippedCall(Value):
    """The result of a call that was skipped."""

    position: Count
    result: ToolResult


class ResolvingToolCalls(Value):
    """Parked on the invalid call at `next_position`; positions are those of `original`."""

    name: Literal["resolving_tool_calls"] = "resolving_tool_calls"
    message_id: str | None = None
    original: Content
    items: Content
    next_position: Count
    policy: TurnPolicy
    skipped: tuple[SkippedCall, ...] = ()
    ignored: tuple[Count, ...] = ()
    recovered: bool = False

    def parked_call(self) -> ToolCall:
        """The call that needs a decision."""
        call = self.items[self.next_position]
        if not isinstance(call, ToolCall):
            raise TypeError("a run is parked on tool calls only; load() checks that")
        return call


class AwaitingAdvance(Value):
    """A turn was accepted and is not in history yet."""

    name: Literal["awaiting_advance"] = "awaiting_advance"
    message_id: str | None = None
    items: Content
    policy: TurnPolicy
    skipped: tuple[SkippedCall, ...] = ()
    internal_call_ids: tuple[InternalCallId, ...] = ()


class Slot(Value):
    """One call of a batch and, once there is one, its result."""

    position: Count
    tool_call: ToolCall
    answer: ToolResult | None = None
    internal_call_id: NonEmpty | None = None


class ExecutingTools(Value):
    """Answers are outstanding."""

    name: Literal["executing_tools"] = "executing_tools"
    slots: tuple[Slot, ...] = Field(min_length=1)
    policy: TurnPolicy

    def closing_message(self) -> UserMessage:
        """The results in call order; open calls read `INTERRUPTED`."""
        return UserMessage(
            content=tuple(
                slot.answer or text_result(slot.tool_call, INTERRUPTED) for slot in self.slots
            )
        )


class RunDone(Value):
    """Terminal, good."""

    name: Literal["done"] = "done"
    output: str
    content: Content


class RunFailed(Value):
    """Terminal, bad."""

    name: Literal["failed"] = "failed"


RunState = Annotated[
    PreparingRequest
    | AwaitingModel
    | ResolvingToolCalls
    | AwaitingAdvance
    | ExecutingTools
    | RunDone
    | RunFailed,
    Field(discriminator="name"),
]


class RunConfig(Value):
    """What the builders set."""

    max_turns: Count = 1
    max_invalid_tool_call_retries: Count = 0
    max_consecutive_malformed_tool_calls: Count | None = None
    unhandled_invalid_tool_call: Unhandled = "fail"
    tool_choice: ToolChoice | None = None
    output_tool_name: NonEmpty | None = None
    output_schema: JsonObject | None = None
    max_output_retries: Count = 0


class RunCounters(Value):
    """What the budgets other than `max_turns` have been charged."""

    invalid_tool_call_retries: Count = 0
    malformed_tool_calls: Count = 0
    output_retries: Count = 0


class RunRecord(Value):
    """A run at rest. `messages` begins with the prompt and is never empty."""

    config: RunConfig = RunConfig()
    input_history: tuple[Message, ...] = ()
    messages: tuple[Message, ...] = Field(min_length=1)
    turn: Count = 0
    usage: Usage = Usage()
    completion_calls: tuple[CompletionCall, ...] = ()
    counters: RunCounters = RunCounters()
    previous_model: str | None = None
    entries: tuple[RunEntry, ...] = ()
    state: RunState = PreparingRequest()

    def prompt(self) -> UserMessage:
        """The last message, which the next model call sends as its prompt."""
        last = self.messages[-1]
        if not isinstance(last, UserMessage):
            raise TypeError("only a user message is ever sent as a prompt; load() checks that")
        return last

    def full_history(self) -> tuple[Message, ...]:
        """Input history, messages and, in an open batch, the message that would close it."""
        history = self.input_history + self.messages
        if isinstance(self.state, ExecutingTools):
            history += (self.state.closing_message(),)
        return history

    def diagnostic_history(self, content: Content, message_id: str | None) -> tuple[Message, ...]:
        """`full_history` and a turn with an invalid call, for reading only."""
        return (*self.full_history(), AssistantMessage(id=message_id, content=content))

    def beginning_turn(self) -> RunRecord:
        """The record of one more turn, whose model call is out."""
        return self.model_copy(update={"turn": self.turn + 1, "state": AwaitingModel()})

    def may_retry_invalid_call(self) -> bool:
        """Whether the budget of invalid-call retries still holds one."""
        return self.counters.invalid_tool_call_retries < self.config.max_invalid_tool_call_retries

    def effective_policy(self, policy: TurnPolicy) -> TurnPolicy:
        """The policy with every default of the run filled in (agent-run.md 10)."""
        pinned = self.config.output_tool_name
        output_tool = None if policy.output_tool_withheld else pinned or policy.output_tool
        return TurnPolicy(
            executable_tools=policy.executable_tools,
            tool_choice=policy.tool_choice or self.config.tool_choice,
            output_tool=output_tool,
            output_tool_withheld=output_tool is None,
        )

    def violation(self, text: str) -> ProtocolViolation:
        """The refusal of a call out of turn."""
        return ProtocolViolation(text, chat_history=self.full_history())

    def entering(self, state: RunState, *appended: Message) -> RunRecord:
        """The record in another state, with messages appended."""
        return self.model_copy(
            update={"state": state, "messages": self.messages + appended}
            if appended
            else {"state": state}
        )

    def configured(self, config: RunConfig) -> RunRecord:
        """The record with other settings."""
        return self.model_copy(update={"config": config})

    def with_input_history(self, history: tuple[Message, ...]) -> RunRecord:
        """The record with another history before its prompt."""
        return self.model_copy(update={"input_history": history})

    def with_entry(self, entry: RunEntry) -> RunRecord:
        """The record with one more entry of the host."""
        return self.model_copy(update={"entries": (*self.entries, entry)})

    def with_previous_model(self, name: str) -> RunRecord:
        """The record with another model noted by the host."""
        return self.model_copy(update={"previous_model": name})

    def replacing_prompt(self, prompt: UserMessage) -> RunRecord:
        """The record with another last message."""
        return self.model_copy(update={"messages": (*self.messages[:-1], prompt)})

    def failed(self) -> RunRecord:
        """The record of a run that ended badly."""
        return self.entering(RunFailed())

    def recording(self, call: CompletionCall) -> RunRecord:
        """The record with one more completed model call on the bill."""
        return self.model_copy(
            update={
                "completion_calls": (*self.completion_calls, call),
                "usage": self.usage + call.usage,
            }
        )

    def pinning(self, name: str | None) -> RunRecord:
        """The record with its output tool pinned, if it was not and there is a name."""
        if name is None or self.config.output_tool_name is not None:
            return self
        return self.configured(self.config.model_copy(update={"output_tool_name": name}))

    def counting(
        self,
        *,
        invalid_tool_call_retries: int | None = None,
        malformed_tool_calls: int | None = None,
        output_retries: int | None = None,
    ) -> RunRecord:
        """The record with the given counters set."""
        given = {
            "invalid_tool_call_retries": invalid_tool_call_retries,
            "malformed_tool_calls": malformed_tool_calls,
            "output_retries": output_retries,
        }
        counters = self.counters.model_copy(
            update={name: count for name, count in given.items() if count is not None}
        )
        return self.model_copy(update={"counters": counters})
