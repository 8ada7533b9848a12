"""What a run raises. Blame is in the type.

- `ProtocolViolation`: the driver called out of turn; nothing has changed.
- `PromptCancelled`: somebody stopped the run. `UnknownToolCall`, `CompletionError`: the model.
- `MaxTurnsError`: the budget; the run goes on once the budget is raised.
- The `ValueError`s: a document or a history that is not what it should be; nothing was built.

`chat_history` is canonical and can be resumed from, except in `UnknownToolCall`, where it ends with
the rejected turn and is for reading (agent-run.md 2.5).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from app.engine.messages import AssistantContent, Message, UserMessage

History = tuple["Message", ...]
VIOLATION: Literal["agent run driver protocol violation: "] = (
    "agent run driver protocol violation: "
)


class PromptError(Exception):
    """Base of everything that ends or refuses a step of a run."""

    def __init__(self, message: str, *, chat_history: History) -> None:
        super().__init__(message)
        self.chat_history = chat_history


class MaxTurnsError(PromptError):
    """The budget of model calls is used up; `prompt` is what would have been sent."""

    def __init__(self, max_turns: int, *, prompt: UserMessage, chat_history: History) -> None:
        super().__init__(f"reached the limit of {max_turns} turns", chat_history=chat_history)
        self.max_turns = max_turns
        self.prompt = prompt


class PromptCancelled(PromptError):
    """The run was stopped; `reason` is verbatim."""

    def __init__(self, reason: str, *, chat_history: History) -> None:
        super().__init__(reason, chat_history=chat_history)
        self.reason = reason


class ProtocolViolation(PromptCancelled):
    """A method was called in a state, or with an argument, that does not take it."""

    def __init__(self, text: str, *, chat_history: History) -> None:
        super().__init__(VIOLATION + text, chat_history=chat_history)


class UnknownToolCall(PromptError):
    """The model called a tool it must not call, and nobody mended that."""

    def __init__(
        self,
        tool_name: str,
        reason: str,
        *,
        available_tools: tuple[str, ...],
        allowed_tools: tuple[str, ...],
        chat_history: History,
    ) -> None:
        allowed = ", ".join(allowed_tools) or "none"
        super().__init__(
            f"the model called `{tool_name}` ({reason}); allowed tools: {allowed}",
            chat_history=chat_history,
        )
        self.tool_name = tool_name
        self.reason = reason
        self.available_tools = available_tools
        self.allowed_tools = allowed_tools


class CompletionError(PromptError):
    """A model's answer cannot be used; `content` is the rejected turn."""

    def __init__(
        self,
        kind: Literal["response", "request", "provider"],
        message: str,
        *,
        chat_history: History = (),
        content: tuple[AssistantContent, ...] = (),
    ) -> None:
        super().__init__(message, chat_history=chat_history)
        self.kind = kind
        self.message = message
        self.content = content


class UnsupportedRunFormat(ValueError):
    """A document of another format number."""


class InvalidRunDocument(ValueError):
    """A document that no run ever wrote; the message names the key or path."""


class NonCanonicalHistory(ValueError):
    """A history with an unanswered call, an orphan result or two assistants in a row."""
