"""Whether the transcript a turn starts from holds untrusted content (turn.md 5.5).

The durable verdict comes with the options; this is the second look, at the results that stand in
the transcript. A result counts when its tool lets content in from outside, and an unknown tool
counts as one. Synthetic results count for nothing: they stand as JSON, which no tool's result
does, or answer a call whose arguments were malformed, which no tool ever saw. What a delegated
worker answered counts by the tag it has in the log, which the durable verdict knows.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final

from app.engine.messages import (
    AssistantMessage,
    ToolCall,
    ToolResult,
    ToolResultJson,
    ToolResultText,
    UserMessage,
)
from app.engine.texts import INTERRUPTED, NOT_EXECUTED
from app.turn.texts import DELEGATE_TO

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from app.engine.messages import Message
    from app.turn.forms.output import OutputTool
    from app.turn.ports import ToolExecutor

_NOT_RUN: Final = frozenset({INTERRUPTED, NOT_EXECUTED})


def transcript_taints(
    messages: Sequence[Message], tools: ToolExecutor, output: OutputTool | None = None
) -> bool:
    """Whether any result of the messages taints the run that reads it.

    The output tool is none: what stands as its result is the engine's own feedback.
    """
    heard = _tools_heard(messages)
    if output is not None:
        heard.discard(output.name)
    return any(tools.ingests_untrusted_content(name) for name in heard)


def _tools_heard(messages: Sequence[Message]) -> set[str]:
    return {
        result.name
        for before, message in pairwise(messages)
        if isinstance(before, AssistantMessage) and isinstance(message, UserMessage)
        for result in _executed(before, message)
    }


def _executed(asked: AssistantMessage, answered: UserMessage) -> Iterable[ToolResult]:
    """The results that a tool gave. A batch's results stand in the order of its calls."""
    calls = [part for part in asked.content if isinstance(part, ToolCall)]
    results = [part for part in answered.content if isinstance(part, ToolResult)]
    return (
        result
        for call, result in zip(calls, results, strict=False)
        if not call.is_malformed and call.name != DELEGATE_TO and not _is_synthetic(result)
    )


def _is_synthetic(result: ToolResult) -> bool:
    """Whether no tool gave the result; a call that never ran has a fixed text of the engine's."""
    match result.content:
        case (ToolResultText(text=text),) if text in _NOT_RUN:
            return True
        case contents:
            return all(isinstance(content, ToolResultJson) for content in contents)
