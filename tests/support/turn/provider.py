"""A provider that plays prepared replies, one per model call, and keeps the requests.

    provider = PreparedProvider([reply(called("c1", "read", {"path": "a"})), reply(said("done"))])

A reply is a list of items; an exception among them is raised where it stands. A call beyond the
last reply, or a reply that is never asked for, is for the test to notice through `requests`.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from app.engine.json.text import FrozenObject
from app.engine.messages import ToolCall
from app.engine.streaming.items import (
    FinalItem,
    ReasoningDeltaItem,
    TextItem,
    ToolCallItem,
    UnknownItem,
)
from app.engine.usage import FinishReason, Usage

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Sequence

    from app.engine.streaming.items import StreamItem
    from app.engine.usage import FinishKind
    from app.turn.ports import ModelRequest


def said(text: str) -> TextItem:
    """A piece of text."""
    return TextItem(text=text)


def thought(text: str) -> ReasoningDeltaItem:
    """A piece of reasoning."""
    return ReasoningDeltaItem(correlator="r", text=text)


def searched() -> UnknownItem:
    """The trace of native search."""
    return UnknownItem(payload={"type": "web_search_call"})


def called(wire_id: str | None, tool: str, args: Any, *, position: int = 0) -> ToolCallItem:
    """A complete call; arguments that are text stand for exactly what the model sent."""
    sent = args if isinstance(args, str) else json.dumps(args)
    call = ToolCall.from_wire(wire_id, tool, sent, turn=1, position=position)
    call = call.model_copy(update={"additional_params": FrozenObject({"arguments_text": sent})})
    return ToolCallItem(tool_call=call, internal_call_id=f"internal-{wire_id}-{position}")


def final(
    usage: tuple[int, int] = (1, 1), stop: FinishKind = "stop", detail: str | None = None
) -> FinalItem:
    """The terminal record."""
    return FinalItem(
        usage=Usage(input_tokens=usage[0], output_tokens=usage[1], total_tokens=sum(usage)),
        finish_reason=FinishReason(kind=stop, detail=detail),
        raw={"secret": "body"},
    )


def reply(
    *items: StreamItem | Exception, usage: tuple[int, int] = (1, 1)
) -> list[StreamItem | Exception]:
    """A whole reply with its terminal record."""
    stop: FinishKind = (
        "tool_calls" if any(isinstance(item, ToolCallItem) for item in items) else "stop"
    )
    return [*items, final(usage, stop)]


def cut(*items: StreamItem | Exception) -> list[StreamItem | Exception]:
    """A reply exactly as given, without a terminal record of its own."""
    return list(items)


class PreparedProvider:
    """Plays its replies in order; `closed` counts the streams that were closed."""

    def __init__(self, replies: Sequence[Sequence[StreamItem | Exception]]) -> None:
        self._replies = list(replies)
        self.requests: list[ModelRequest] = []
        self.pulled = 0
        self.closed = 0
        self.on_request: Callable[[ModelRequest], None] = lambda _request: None

    async def stream(self, request: ModelRequest) -> AsyncGenerator[StreamItem, None]:
        self.requests.append(request)
        self.on_request(request)
        try:
            for item in self._replies.pop(0):
                self.pulled += 1
                if isinstance(item, Exception):
                    raise item
                yield item
        finally:
            self.closed += 1


class EndlessProvider:
    """Answers every model call with what `answer` makes of its number, from 0."""

    def __init__(self, answer: Callable[[int], list[StreamItem | Exception]]) -> None:
        self._answer = answer
        self.requests: list[ModelRequest] = []

    async def stream(self, request: ModelRequest) -> AsyncGenerator[StreamItem, None]:
        self.requests.append(request)
        for item in self._answer(len(self.requests) - 1):
            if isinstance(item, Exception):
                raise item
            yield item
