"""What an invalid call looks like to whoever decides on it, and which decisions are accepted.

Buffered and streamed turns share these rules; they differ only in what an accepted decision does
(agent-run.md 6.1 and 8.3).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, assert_never

from app.engine.commands import (
    Fail,
    Ignore,
    InvalidToolCallContext,
    Repair,
    Retry,
    Skip,
    Stop,
)
from app.engine.errors import PromptCancelled, PromptError, UnknownToolCall

if TYPE_CHECKING:
    from app.engine.commands import InvalidToolCallAction
    from app.engine.machine.record import RunRecord
    from app.engine.messages import Message, ToolCall
    from app.engine.turn_policy import TurnPolicy

NameReason = Literal["unknown_tool", "disallowed_by_tool_choice"]


@dataclass(frozen=True, slots=True, kw_only=True)
class InvalidCall:
    """A call with a name its turn does not allow; `history` ends with that turn as it was sent."""

    call: ToolCall
    policy: TurnPolicy
    history: tuple[Message, ...]
    args: str | None
    internal_call_id: str | None = None
    is_streaming: bool = False

    @property
    def reason(self) -> NameReason:
        """Why the name is invalid."""
        advertised = self.policy.advertises(self.call.name)
        return "disallowed_by_tool_choice" if advertised else "unknown_tool"

    def context(self) -> InvalidToolCallContext:
        """All that is known about the call."""
        return InvalidToolCallContext(
            tool_name=self.call.name,
            reason=self.reason,
            tool_call_id=self.call.id,
            internal_call_id=self.internal_call_id,
            args=self.args,
            available_tools=self.policy.executable_tools,
            allowed_tools=self.policy.allowed_tools,
            tool_choice=self.policy.tool_choice,
            chat_history=self.history,
            is_streaming=self.is_streaming,
        )

    def error(self, tool_name: str) -> UnknownToolCall:
        """The end of the run because of `tool_name`, the emitted name or a refused repair."""
        return UnknownToolCall(
            tool_name,
            self.reason,
            available_tools=self.policy.executable_tools,
            allowed_tools=self.policy.allowed_tools,
            chat_history=self.history,
        )


def decide(
    record: RunRecord, invalid: InvalidCall, *, action: InvalidToolCallAction
) -> Retry | Repair | Skip | Ignore | PromptError:
    """The action if it is accepted, else the error that ends the run."""
    refused = invalid.call.name
    match action:
        case Stop(reason=reason):
            return PromptCancelled(reason, chat_history=record.full_history())
        case Fail():
            pass
        case Retry():
            if record.may_retry_invalid_call():
                return action
        case Repair(tool_name=name):
            if invalid.policy.allows(name):
                return action
            refused = name
        case Skip():
            if not invalid.policy.forbids_calls():
                return action
        case Ignore():
            return action
        case _:
            assert_never(action)
    return invalid.error(refused)
