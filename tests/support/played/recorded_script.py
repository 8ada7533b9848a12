"""The `script` model, with a record of every request that it was sent."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from app.engine.messages import AssistantMessage, ToolCall, ToolResult, UserMessage
from app.providers.script import ScriptProvider

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence

    from app.engine.messages import Message
    from app.engine.streaming.items import StreamItem
    from app.turn.ports import Clock, ModelRequest


class RecordedScript:
    """The port `Providers` with one model, and that model.

    `broken` is what binding it raises, `program` what it plays from now on, whatever was said;
    `window` is what it can read, in tokens.
    """

    def __init__(self, clock: Clock) -> None:
        self._script = ScriptProvider(clock)
        self.requests: list[ModelRequest] = []
        self.broken: Exception | None = None
        self.program: str | None = None
        self.window: int | None = None

    def provider(self, model: str) -> RecordedScript:
        if self.broken is not None:
            raise self.broken
        return self

    def context_window(self, model: str) -> int | None:
        return self.window

    def stream(self, request: ModelRequest) -> AsyncGenerator[StreamItem, None]:
        self.requests.append(request)
        if self.program is not None:
            request = replace(request, user_text=self.program)
        return self._script.stream(request)


def results_in(messages: Sequence[Message]) -> list[str]:
    """The texts of all tool results, in order; JSON is shown as its type."""
    return [
        getattr(content, "text", content.type)
        for message in messages
        if isinstance(message, UserMessage)
        for part in message.content
        if isinstance(part, ToolResult)
        for content in part.content
    ]


def is_paired(messages: Sequence[Message]) -> bool:
    """Whether every call has its one result right behind it, and no result lacks its call."""
    for before, after in zip([None, *messages], [*messages, None], strict=True):
        calls = _ids(before, ToolCall)
        results = _ids(after, ToolResult)
        if calls != results:
            return False
    return True


def _ids(message: Message | None, kind: type[ToolCall | ToolResult]) -> list[str]:
    if not isinstance(message, AssistantMessage | UserMessage):
        return []
    parts = [part for part in message.content if isinstance(part, kind)]
    return [part.id if isinstance(part, ToolCall) else part.call for part in parts]
