"""From the engine's messages to pydantic-ai's, for every vendor (turn.md 3.3, agent-run.md 2).

- A result stands right after its call's message, before any text; neighbours of one side are one
  message. Which calls have results is the business of whoever built the history.
- The engine allows an id to repeat, some vendors do not: a repeated one gets a suffix, and results
  follow their calls by occurrence.
- What only its own vendor can read (signatures, encrypted reasoning) is sent to that vendor alone;
  `Reasoning.id` and a call's `additional_params` say whose it is.
"""

from __future__ import annotations

import re
from collections import defaultdict
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, assert_never

from pydantic_ai import messages as wire

from app.engine.json.text import compact_json, thaw
from app.engine.messages import (
    AssistantImage,
    AssistantMessage,
    AssistantText,
    Reasoning,
    SystemMessage,
    ToolCall,
    ToolResult,
    ToolResultImage,
    ToolResultJson,
    ToolResultText,
    UserMessage,
    UserText,
)
from app.turn.state.call import sent_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from app.engine.messages import (
        AssistantContent,
        Message,
        ToolResultContent,
        UserAudio,
        UserContent,
        UserDocument,
        UserImage,
        UserVideo,
    )

    UserMedia = UserImage | UserAudio | UserVideo | UserDocument

VENDOR: Final = "vendor"
VENDOR_DETAILS: Final = "vendor_details"
REDACTED_ID: Final = "redacted_thinking"
_MAX_ID_CHARS: Final = 40  # OpenAI takes no longer ones.
_NOT_IN_A_NAME: Final = re.compile(r"[^a-zA-Z0-9_-]")


def vendor_messages(
    messages: Sequence[Message],
    vendor: str,
    files: Mapping[str, wire.UploadedFile | str] = MappingProxyType({}),
) -> list[wire.ModelMessage]:
    """The transcript as `vendor` is to get it.

    `files` has, by source, what the vendor has of a file, or the stub that stands for it.
    """
    writer = _Writer(vendor, files)
    for message in messages:
        match message:
            case SystemMessage(text=text):
                writer.told([wire.SystemPromptPart(text)])
            case UserMessage(content=content):
                writer.user(content)
            case AssistantMessage(content=content):
                writer.assistant(content)
            case _:
                assert_never(message)
    return writer.written


def holds_calls(messages: Sequence[Message]) -> bool:
    """Whether the transcript holds a call, so that some vendors insist on the tools' specs."""
    return any(
        isinstance(part, ToolCall)
        for message in messages
        if isinstance(message, AssistantMessage)
        for part in message.content
    )


class _Writer:
    def __init__(self, vendor: str, files: Mapping[str, wire.UploadedFile | str]) -> None:
        self._vendor = vendor
        self._files = files
        self._used_ids: set[str] = set()
        # The ids on the wire of the calls that wait for results, by the engine's id of the call.
        self._open: defaultdict[str, list[str]] = defaultdict(list)
        self.written: list[wire.ModelMessage] = []

    def told(self, parts: Iterable[wire.ModelRequestPart]) -> None:
        """Add what the model is told, to what it was told just before if there is such."""
        if self.written and isinstance(last := self.written[-1], wire.ModelRequest):
            last.parts = [*last.parts, *parts]
        else:
            self.written.append(wire.ModelRequest(parts=list(parts)))

    def user(self, content: Sequence[UserContent]) -> None:
        results = [block for block in content if isinstance(block, ToolResult)]
        others = [block for block in content if not isinstance(block, ToolResult)]
        self.told([self._result(result) for result in results])
        self.told([part for block in others if (part := self._prompt(block)) is not None])

    def _prompt(self, block: UserText | UserMedia) -> wire.UserPromptPart | None:
        """A block of a user; none for a file whose stub stands beside it."""
        if isinstance(block, UserText) or block.source not in self._files:
            return _prompt(block)
        found = self._files[block.source]
        if isinstance(found, wire.UploadedFile):
            return wire.UserPromptPart([found])
        return wire.UserPromptPart(found) if found else None

    def assistant(self, content: Sequence[AssistantContent]) -> None:
        self._open.clear()
        parts = [part for block in content if (part := self._said(block)) is not None]
        if not parts:
            return
        if self.written and isinstance(last := self.written[-1], wire.ModelResponse):
            last.parts = [*last.parts, *parts]
        else:
            self.written.append(wire.ModelResponse(parts=parts, provider_name=self._vendor))

    def _said(self, block: AssistantContent) -> wire.ModelResponsePart | None:
        match block:
            case AssistantText(text=text):
                return wire.TextPart(text) if text else None
            case ToolCall():
                return self._call(block)
            case Reasoning():
                return _thinking(block, self._vendor)
            case AssistantImage():
                return wire.TextPart("[an image]")
            case _:
                assert_never(block)

    def _call(self, call: ToolCall) -> wire.ToolCallPart:
        params = dict(call.additional_params or {})
        details = thaw(params.get(VENDOR_DETAILS)) if params.get(VENDOR) == self._vendor else None
        return wire.ToolCallPart(
            _NOT_IN_A_NAME.sub("_", call.name)[:64] or "_",
            sent_text(call),
            self._wire_id(call.id),
            provider_name=self._vendor if details else None,
            provider_details=details,
        )

    def _wire_id(self, call_id: str) -> str:
        plain = _NOT_IN_A_NAME.sub("_", call_id)[:_MAX_ID_CHARS]
        unique, count = plain, 1
        while unique in self._used_ids:
            count += 1
            suffix = f"-{count}"
            unique = plain[: _MAX_ID_CHARS - len(suffix)] + suffix
        self._used_ids.add(unique)
        self._open[call_id].append(unique)
        return unique

    def _result(self, result: ToolResult) -> wire.ToolReturnPart:
        waiting = self._open[result.call]
        return wire.ToolReturnPart(
            _NOT_IN_A_NAME.sub("_", result.name)[:64] or "_",
            "\n".join(_result_text(content) for content in result.content),
            waiting.pop(0) if waiting else result.call,
        )


def _thinking(reasoning: Reasoning, vendor: str) -> wire.ThinkingPart | None:
    """The block for the vendor it came from; nobody else can use it."""
    owner, _, part_id = (reasoning.id or "").partition(":")
    if owner != vendor:
        return None
    signatures = [part.signature for part in reasoning.content if part.signature is not None]
    return wire.ThinkingPart(
        "".join(part.text for part in reasoning.content),
        id=part_id or None,
        signature=signatures[-1] if signatures else None,
        provider_name=vendor,
    )


def _prompt(block: UserText | UserMedia) -> wire.UserPromptPart:
    """A block of a user. Media go along where they are at hand; a URL is shown, never fetched."""
    if isinstance(block, UserText):
        return wire.UserPromptPart(block.text)
    if block.source.startswith("data:"):
        return wire.UserPromptPart([wire.BinaryContent.from_data_uri(block.source)])
    return wire.UserPromptPart(f"[{block.type}: {block.source}]")


def _result_text(content: ToolResultContent) -> str:
    match content:
        case ToolResultText(text=text):
            return text
        case ToolResultJson(value=value):
            return compact_json(value)
        case ToolResultImage():
            return "[an image]"
        case _:
            assert_never(content)
