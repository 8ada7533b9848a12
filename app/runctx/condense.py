"""What a summariser is given of a history, and what is made of its answer (run-context.md 10).

Names of things are what a later step needs most and a summary loses first, so those that it lacks
are put under it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from app.engine.json.text import compact_json
from app.engine.messages import (
    AssistantText,
    SystemMessage,
    ToolCall,
    ToolResult,
    ToolResultImage,
    ToolResultJson,
    ToolResultText,
    UserText,
)
from app.runctx.text import without_surrogates

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from app.engine.messages import Message, ToolResultContent

ITEM_BYTES: Final = 2 * 1024
SUMMARY_BYTES: Final = 8 * 1024
IDENTIFIERS_BYTES: Final = 1024
_LINE: Final = "Identifiers: "
# No place is tried twice for the same characters: texts are strangers', and of any length.
_IDENTIFIER: Final = re.compile(
    r"""https?://[^\s"'<>\\]+[^\s"'<>\\.,;:)\]}]            # URLs
    | (?<![\w.+-])[\w.+-]{1,64}@[\w-]+\.[\w.-]*\w           # e-mail addresses
    | \b[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b  # UUIDs
    | \b[a-z]{2,12}_[0-9A-Za-z-]{6,}\b                     # prefixed ids
    | \b[0-9a-fA-F]{12,}\b                                 # hex
    | \b\d{5,}\b                                           # long numbers
    """,
    re.VERBOSE,
)


def items_of(messages: Iterable[Message]) -> list[str]:
    """The messages as texts, a line of who said it before each part; reasoning is left out."""
    return [item for message in messages for item in _items(message)]


def condensed(summary: str, *, prior: str, items: Sequence[str]) -> str:
    """The summary as it is kept: cut, with the identifiers below it that it lacks.

    Blank if the summary is, for one that says nothing stands for nothing.
    """
    text = cut(without_surrogates(summary).strip(), SUMMARY_BYTES)
    if not text:
        return ""
    line = _newest(one for one in reversed(_identifiers((prior, *items))) if one not in text)
    return f"{text}\n{_LINE}{line}" if line else text


def cut(text: str, most: int) -> str:
    """At most so many bytes of UTF-8, whole characters, from the front."""
    octets = text.encode()
    if len(octets) <= most:
        return text
    return octets[:most].decode(errors="ignore")


def _items(message: Message) -> Iterator[str]:
    if isinstance(message, SystemMessage):
        return
    for part in message.content:
        match part:
            case UserText(text=text):
                yield f"user: {without_surrogates(text)}"
            case AssistantText(text=text):
                yield f"assistant: {without_surrogates(text)}"
            case ToolCall():
                yield f"call of {part.name}: {_short(part.arguments_text)}"
            case ToolResult():
                yield f"result of {part.name}: {_short(' '.join(map(_told, part.content)))}"
            case _:
                # Media and reasoning are nothing that a text could stand for.
                continue


def _short(text: str) -> str:
    return cut(without_surrogates(text), ITEM_BYTES)


def _told(content: ToolResultContent) -> str:
    match content:
        case ToolResultText(text=text):
            return text
        case ToolResultJson(value=value):
            return compact_json(value)
        case ToolResultImage():
            return "an image"


def _identifiers(texts: Iterable[str]) -> list[str]:
    """Each identifier once, in the order in which it was last named."""
    found: dict[str, None] = {}
    for text in texts:
        for match in _IDENTIFIER.finditer(text):
            found.pop(match[0], None)
            found[match[0]] = None
    return list(found)


def _newest(identifiers: Iterable[str]) -> str:
    """As many as a line holds of those given, the newest first; what fills it alone is no name."""
    kept: list[str] = []
    left = IDENTIFIERS_BYTES - len(_LINE)
    for one in identifiers:
        size = len(one.encode()) + 1
        if size > IDENTIFIERS_BYTES - len(_LINE):
            continue
        left -= size
        if left < 0:
            break
        kept.append(one)
    return " ".join(reversed(kept))
