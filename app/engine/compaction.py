"""How a transcript is condensed: where it is cut, and what it is estimated at (run-context.md 10).

Only places are decided here. Who writes the summary, and when, is the driver's business.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from app.engine.json.text import compact_json
from app.engine.messages import (
    AssistantMessage,
    AssistantText,
    Reasoning,
    SystemMessage,
    ToolCall,
    ToolResult,
    ToolResultJson,
    ToolResultText,
    UserMessage,
    UserText,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from app.engine.messages import Message

LEAST_FOLDED: Final = 4
MESSAGE_TOKENS: Final = 4
MEDIA_TOKENS: Final = 256


@dataclass(frozen=True, slots=True)
class CompactionPlan:
    """The first `cut` messages are folded, but for the one at `pinned`, which stays as it is."""

    cut: int
    pinned: int | None

    @property
    def folded(self) -> int:
        """How many messages a summary stands for."""
        return self.cut - (self.pinned is not None)


def plan_compaction(
    messages: Sequence[Message], *, keep: int = 20, open_calls: Collection[str]
) -> CompactionPlan | None:
    """The latest cut that keeps the last `keep` messages and everything that is still open.

    `open_calls` are ids of calls that wait for somebody. A call stays with its results, and the
    newest message of the user is never folded. None if fewer than four messages could be.
    """
    cut = min(len(messages) - keep, _first_open(messages, open_calls))
    while 0 < cut < len(messages) and _holds_results(messages[cut]):
        cut -= 1
    newest = max((at for at, one in enumerate(messages) if _is_said(one)), default=None)
    pinned = newest if newest is not None and newest < cut else None
    plan = CompactionPlan(cut, pinned)
    return plan if plan.folded >= LEAST_FOLDED else None


def estimated_tokens(text: str) -> int:
    """A text's tokens: a quarter of its UTF-8 bytes, and one."""
    return len(text.encode(errors="surrogatepass")) // 4 + 1


def estimated_size(messages: Iterable[Message]) -> int:
    """The tokens of messages; what is no text counts as so much."""
    return sum(
        MESSAGE_TOKENS
        + sum(MEDIA_TOKENS if one is None else estimated_tokens(one) for one in _texts(message))
        for message in messages
    )


def _first_open(messages: Sequence[Message], open_calls: Collection[str]) -> int:
    """The place of the first reply one of whose calls has no result or waits."""
    for at, message in enumerate(messages):
        if isinstance(message, AssistantMessage):
            calls = {part.id for part in message.content if isinstance(part, ToolCall)}
            after = messages[at + 1] if at + 1 < len(messages) else None
            if not calls.isdisjoint(open_calls) or not calls <= _results(after):
                return at
    return len(messages)


def _results(message: Message | None) -> set[str]:
    if not isinstance(message, UserMessage):
        return set()
    return {part.call for part in message.content if isinstance(part, ToolResult)}


def _holds_results(message: Message) -> bool:
    return bool(_results(message))


def _is_said(message: Message) -> bool:
    return isinstance(message, UserMessage) and not _holds_results(message)


def _texts(message: Message) -> Iterator[str | None]:
    """Every text of a message; None for something that is none."""
    if isinstance(message, SystemMessage):
        yield message.text
        return
    for part in message.content:
        match part:
            case UserText(text=text) | AssistantText(text=text):
                yield text
            case ToolCall():
                yield part.name + part.arguments_text
            case Reasoning():
                yield from (piece.text for piece in part.content)
            case ToolResult():
                yield from (_result_text(piece) for piece in part.content)
            case _:
                yield None


def _result_text(content: object) -> str | None:
    match content:
        case ToolResultText(text=text):
            return text
        case ToolResultJson(value=value):
            return compact_json(value)
        case _:
            return None
