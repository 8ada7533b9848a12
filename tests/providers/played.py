"""What the tests of providers share: a clock that notes its waits, a request, and a full reply."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from app.engine.streaming.items import FinalItem, ReasoningDeltaItem, TextItem, ToolCallItem
from app.turn.ports import ModelRequest, ProviderError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from app.engine.messages import Message, ToolCall
    from app.engine.streaming.items import StreamItem
    from app.turn.ports import Provider


@dataclass
class NotedClock:
    """A clock that never waits; `waits` are the seconds it was asked for."""

    waits: list[float] = field(default_factory=list)

    def now_ms(self) -> int:
        return 1_800_000_000_000

    def jitter(self) -> float:
        return 0.5

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)


@dataclass
class Reply:
    """The items of one stream, and the error that ended it, if one did."""

    items: list[StreamItem]
    error: ProviderError | None = None

    @property
    def texts(self) -> list[str]:
        return [item.text for item in self.items if isinstance(item, TextItem)]

    @property
    def text(self) -> str:
        return "".join(self.texts)

    @property
    def thoughts(self) -> list[str]:
        return [item.text for item in self.items if isinstance(item, ReasoningDeltaItem)]

    @property
    def calls(self) -> list[ToolCall]:
        return [item.tool_call for item in self.items if isinstance(item, ToolCallItem)]

    @property
    def sent_arguments(self) -> list[object]:
        return [dict(call.additional_params or {}).get("arguments_text") for call in self.calls]

    @property
    def final(self) -> FinalItem:
        assert self.error is None, self.error
        last = self.items[-1]
        assert isinstance(last, FinalItem)
        return last


async def reply(provider: Provider, request: ModelRequest) -> Reply:
    """Read a stream to its end."""
    played = Reply([])
    try:
        async for item in provider.stream(request):
            played.items.append(item)
    except ProviderError as error:
        played.error = error
    return played


def script_request(
    program: str,
    *,
    replies: int = 0,
    dial: int = 0,
    instructions: str = "",
    messages: Sequence[Message] = (),
) -> ModelRequest:
    return ModelRequest(
        model="script",
        instructions=instructions,
        messages=messages,
        user_text=program,
        replies=replies,
        dial=dial,
    )
