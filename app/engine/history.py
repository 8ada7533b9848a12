"""Histories that a provider accepts, and the results that make them so (agent-run.md 9.2).

Canonical: no two assistant messages in a row; every call answered exactly once in the user message
that follows; no result without a call; nothing unanswered at the end. Ids may repeat within a turn,
so calls and results are compared as multisets.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from app.engine.errors import NonCanonicalHistory
from app.engine.messages import (
    AssistantMessage,
    ToolCall,
    ToolResult,
    ToolResultText,
    UserMessage,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from app.engine.messages import Message


def require_canonical(history: Iterable[Message]) -> None:
    """Raise `NonCanonicalHistory`, naming the first fault, unless the history is canonical."""
    open_calls: Counter[str] = Counter()
    after_assistant = False
    for index, message in enumerate(history):
        if isinstance(message, AssistantMessage) and after_assistant:
            raise NonCanonicalHistory(f"message {index}: consecutive assistant messages")
        _require_answered(open_calls, message, index=index)
        open_calls = _calls(message)
        after_assistant = isinstance(message, AssistantMessage)
    if open_calls:
        raise NonCanonicalHistory(f"unanswered tool calls at the end: {_listed(open_calls)}")


def text_result(call: ToolCall, text: str) -> ToolResult:
    """The result of `call` that consists of one text."""
    return ToolResult.of(call, (ToolResultText(text=text),))


def _require_answered(open_calls: Counter[str], message: Message, *, index: int) -> None:
    results = _results(message)
    if orphans := results - open_calls:
        raise NonCanonicalHistory(f"message {index}: orphan tool results: {_listed(orphans)}")
    if unanswered := open_calls - results:
        raise NonCanonicalHistory(f"message {index}: unanswered tool calls: {_listed(unanswered)}")


def _calls(message: Message) -> Counter[str]:
    if not isinstance(message, AssistantMessage):
        return Counter()
    return Counter(part.id for part in message.content if isinstance(part, ToolCall))


def _results(message: Message) -> Counter[str]:
    if not isinstance(message, UserMessage):
        return Counter()
    return Counter(part.call for part in message.content if isinstance(part, ToolResult))


def _listed(ids: Counter[str]) -> str:
    return ", ".join(f"`{name}`" for name in sorted(ids))
