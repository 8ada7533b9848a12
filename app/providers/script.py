"""The `script` model: a provider that plays a program (service.md 8).

It needs no key, no network and no memory: what it says follows from the request alone, so a replay
or another process says the same. Time passes only through the injected clock. It is also what load
is measured with, hence a token costs little more than its item.
"""

from __future__ import annotations

import json
import re
from functools import lru_cache
from itertools import islice, repeat
from typing import TYPE_CHECKING, Final, assert_never

from app.engine.messages import ToolResult, ToolResultJson, ToolResultText, UserMessage
from app.engine.streaming.items import FinalItem, ReasoningDeltaItem, TextItem, ToolCallItem
from app.engine.usage import FinishReason
from app.providers.script_program import Call, Obey, Speech, Tokens, parse_program, tool_call_item
from app.turn.ports import ProviderError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterator, Sequence

    from app.engine.messages import Message
    from app.engine.streaming.items import StreamItem
    from app.providers.script_program import Program, Step
    from app.turn.ports import Clock, FailureKind, ModelRequest

_FIRST_LINE: Final = "#script"
_CORRELATOR: Final = "thought"
# Programs are kept parsed within these bounds; a longer one is parsed again for each step.
_KEPT_PROGRAMS: Final = 128
_KEPT_CHARS: Final = 4096
_INJECTED: Final = re.compile(r"\s*INJECT: (\S+)(?: (.*))?")

_STOP: Final = FinishReason(kind="stop")
_LENGTH: Final = FinishReason(kind="length")
_TOOL_CALLS: Final = FinishReason(kind="tool_calls")


class ScriptProvider:
    """Plays the program of a request: the agent's instructions or the latest user message."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._parsed = lru_cache(_KEPT_PROGRAMS)(parse_program)

    async def stream(self, request: ModelRequest) -> AsyncGenerator[StreamItem, None]:
        """Play the step `request.replies` of the program. Raises ProviderError where it says so."""
        step = self._program(_program_text(request)).step(request.replies)
        if (refusal := step.refusal(request.dial)) is not None:
            raise _failure(refusal)
        called = False
        for delay_s, item in _played(step, request.messages):
            if delay_s:
                await self._clock.sleep(delay_s)
            called = called or isinstance(item, ToolCallItem)
            yield item
        if step.break_at is not None:
            raise _failure(step.break_at[1])
        yield FinalItem(usage=step.usage, finish_reason=_finish_reason(step, called), raw=None)

    def _program(self, text: str) -> Program:
        return self._parsed(text) if len(text) <= _KEPT_CHARS else parse_program(text)


def _program_text(request: ModelRequest) -> str:
    first, _, rest = request.instructions.partition("\n")
    return rest if first.strip() == _FIRST_LINE else request.user_text


def _failure(kind: FailureKind) -> ProviderError:
    return ProviderError(kind, f"the script says so: {kind.value}")


def _finish_reason(step: Step, called: bool) -> FinishReason:
    if step.is_cut:
        return _LENGTH
    return _TOOL_CALLS if called else _STOP


def _played(step: Step, messages: Sequence[Message]) -> Iterator[tuple[float, StreamItem]]:
    """The items of a step up to its break, each with the seconds to wait before it."""
    left = -1 if step.break_at is None else step.break_at[0]
    for part in step.parts:
        if left == 0:
            return
        match part:
            case Speech(delay_s=delay_s) | Tokens(delay_s=delay_s):
                for item in islice(_tokens(part), left if left > 0 else None):
                    left -= 1
                    yield delay_s, item
            case Call(item=call):
                yield 0.0, call
            case Obey():
                yield from ((0.0, call) for call in _injected_calls(part, messages))
            case _:
                assert_never(part)


def _tokens(part: Speech | Tokens) -> Iterator[StreamItem]:
    match part:
        case Tokens(first=first, others=others, count=count):
            yield TextItem(text=first)
            yield from repeat(TextItem(text=others), count - 1)
        case Speech(words=words, is_reasoning=True):
            yield from (ReasoningDeltaItem(correlator=_CORRELATOR, text=word) for word in words)
        case Speech(words=words):
            yield from (TextItem(text=word) for word in words)
        case _:
            assert_never(part)


def _injected_calls(part: Obey, messages: Sequence[Message]) -> Iterator[ToolCallItem]:
    for index, (tool, text) in enumerate(_injections(_latest_results(messages)), part.index):
        yield tool_call_item(part.step, index, tool, text).item


def _latest_results(messages: Sequence[Message]) -> list[object]:
    """What the tools answered last: texts and JSON values."""
    for message in reversed(messages):
        if isinstance(message, UserMessage):
            results = [block for block in message.content if isinstance(block, ToolResult)]
            if results:
                return [_shown(content) for result in results for content in result.content]
    return []


def _shown(content: object) -> object:
    match content:
        case ToolResultText(text=text):
            return text
        case ToolResultJson(value=value):
            return value
        case _:
            return None


def _injections(values: Sequence[object]) -> Iterator[tuple[str, str]]:
    """The (tool, argument text) of every `INJECT:` line in any string of the values, decoded.

    A stack in place of recursion: how deep a result is nested is the tool's choice.
    """
    open_values = list(reversed(values))
    while open_values:
        match open_values.pop():
            case str() as text if (decoded := _decoded(text)) is not None:
                open_values.append(decoded)
            case str() as line if "\n" not in line:
                if (found := _INJECTED.fullmatch(line)) is not None:
                    yield found[1], found[2] or ""
            case str() as text:
                open_values.extend(reversed(text.split("\n")))
            case list() as items:
                open_values.extend(reversed(items))
            case dict() as members:
                open_values.extend(reversed(members.values()))
            case _:
                pass


def _decoded(text: str) -> object:
    """The value of a text that is JSON with strings in it; None for any other text."""
    if not text.lstrip().startswith(("{", "[", '"')):
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
