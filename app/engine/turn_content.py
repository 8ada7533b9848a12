"""Questions about the content of one assistant turn.

`is_empty_turn` and `delivered_no_answer` are two predicates on purpose (agent-run.md 2.4): the
first decides what history leaves out, the second what a truncated answer must not be. Merged, they
either lose signed reasoning from history or accept a truncated turn that said nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.engine.messages import AssistantText, Reasoning, ToolCall

if TYPE_CHECKING:
    from collections.abc import Iterable

    from app.engine.messages import AssistantContent


def is_empty_turn(content: tuple[AssistantContent, ...]) -> bool:
    """Whether history leaves the turn out: no part, or one empty text without params."""
    match content:
        case ():
            return True
        case (AssistantText(text="", additional_params=None),):
            return True
        case _:
            return False


def delivered_no_answer(content: tuple[AssistantContent, ...]) -> bool:
    """Whether the turn holds nothing but reasoning and empty text."""
    return all(
        isinstance(part, Reasoning) or (isinstance(part, AssistantText) and not part.text)
        for part in content
    )


def tool_calls(content: Iterable[AssistantContent]) -> tuple[tuple[int, ToolCall], ...]:
    """The calls of a turn with their positions in its content."""
    return tuple(
        (position, part) for position, part in enumerate(content) if isinstance(part, ToolCall)
    )


def joined_text(content: tuple[AssistantContent, ...]) -> str:
    """All text of the turn, joined without a separator."""
    return "".join(part.text for part in content if isinstance(part, AssistantText))
