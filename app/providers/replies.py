"""From a vendor's stream, as pydantic-ai reads it, to the items of the engine (agent-run.md 8).

Text and reasoning pass through piece by piece. A call is announced by its name when it begins, and
given whole when the stream is over: pieces of its arguments help nobody, and calls may interleave.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from pydantic_ai import messages as wire

from app.engine.json.text import freeze_object
from app.engine.messages import Reasoning, ReasoningRedacted, ReasoningText
from app.engine.streaming.items import (
    FinalItem,
    ReasoningDeltaItem,
    ReasoningItem,
    TextItem,
    ToolCallItem,
    ToolCallNameItem,
    UnknownItem,
)
from app.engine.usage import FinishReason, Usage
from app.providers.calls import call_from_wire
from app.providers.failures import truncated
from app.providers.transcript import REDACTED_ID, VENDOR, VENDOR_DETAILS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pydantic_ai.usage import RequestUsage

    from app.engine.messages import ToolCall
    from app.engine.streaming.items import StreamItem
    from app.engine.usage import FinishKind

SEARCHED: Final = {"type": "web_search_call"}
_INVENTED_ID: Final = "pyd_ai_"  # pydantic-ai's own random id for a call that came without one.
# What only a stream says that came to its end: why, that it refuses, that the prompt is blocked.
_END_SIGNS: Final = frozenset({"finish_reason", "refusal", "block_reason"})
_FINISH_KINDS: Final[dict[str | None, FinishKind]] = {
    "stop": "stop",
    "length": "length",
    "content_filter": "content_filter",
    "tool_call": "tool_calls",
    "error": "failed",
}


class ReplyReader:
    """Reads one stream. `turn` numbers the replies of the run and names calls without an id."""

    def __init__(self, vendor: str, turn: int) -> None:
        self._vendor = vendor
        self._turn = turn
        self._begun_calls: list[int] = []
        self._thoughts: list[int] = []
        self._searched = False

    def items(self, event: wire.ModelResponseStreamEvent) -> Iterator[StreamItem]:
        """The items of one event, mostly one."""
        match event:
            case wire.PartStartEvent(index=index, part=part):
                yield from self._begun(index, part)
            case wire.PartDeltaEvent(delta=wire.TextPartDelta(content_delta=text)) if text:
                yield TextItem(text=_sound(text))
            case wire.PartDeltaEvent(
                index=index, delta=wire.ThinkingPartDelta(content_delta=str() as text)
            ) if text:
                yield ReasoningDeltaItem(correlator=_correlator(index), text=_sound(text))
            case _:
                pass

    def closing(self, response: wire.ModelResponse) -> Iterator[StreamItem]:
        """What is only known at the end. Raises ProviderError if the stream was cut."""
        details = response.provider_details or {}
        refusal = details.get("refusal")
        if _END_SIGNS.isdisjoint(details):
            raise truncated(self._vendor)
        if refusal is not None and not any(
            isinstance(part, wire.TextPart) for part in response.parts
        ):
            yield TextItem(text=_sound(str(refusal)))
        if not self._searched and any(_is_grounded(part) for part in response.parts):
            yield UnknownItem(payload=SEARCHED)
        yield from self._reasoning(response)
        called = False
        for call in self._calls(response):
            called = True
            yield call
        yield FinalItem(
            usage=_usage_of(response.usage),
            response_id=response.provider_response_id,
            finish_reason=_finish_reason(response, called=called),
            raw=None,
        )

    def _begun(self, index: int, part: wire.ModelResponsePart) -> Iterator[StreamItem]:
        match part:
            case wire.TextPart(content=text) if text:
                yield TextItem(text=_sound(text))
            case wire.ThinkingPart(content=text):
                self._thoughts.append(index)
                if text:
                    yield ReasoningDeltaItem(correlator=_correlator(index), text=_sound(text))
            case wire.ToolCallPart(tool_name=name) if index not in self._begun_calls:
                self._begun_calls.append(index)
                yield ToolCallNameItem(internal_call_id=_internal_id(index), name=_sound(name))
            case wire.NativeToolCallPart():
                self._searched = True
                yield UnknownItem(payload=SEARCHED)
            case _:
                pass

    def _reasoning(self, response: wire.ModelResponse) -> Iterator[StreamItem]:
        parts = [part for part in response.parts if isinstance(part, wire.ThinkingPart)]
        for index, part in zip(sorted(set(self._thoughts)), parts, strict=False):
            yield ReasoningItem(correlator=_correlator(index), reasoning=self._block(part))

    def _block(self, part: wire.ThinkingPart) -> Reasoning:
        kind = ReasoningRedacted if part.id == REDACTED_ID else ReasoningText
        content = kind(text=_sound(part.content), signature=part.signature)
        return Reasoning(id=f"{self._vendor}:{part.id or ''}", content=(content,))

    def _calls(self, response: wire.ModelResponse) -> Iterator[StreamItem]:
        placed = [
            (position, part)
            for position, part in enumerate(response.parts)
            if isinstance(part, wire.ToolCallPart)
        ]
        for index, (position, part) in zip(sorted(self._begun_calls), placed, strict=False):
            call = call_from_wire(
                None if part.tool_call_id.startswith(_INVENTED_ID) else _sound(part.tool_call_id),
                _sound(part.tool_name),
                _argument_text(part.args),
                turn=self._turn,
                position=position,
            )
            yield ToolCallItem(
                tool_call=self._with_details(call, part.provider_details),
                internal_call_id=_internal_id(index),
            )

    def _with_details(self, call: ToolCall, details: dict[str, Any] | None) -> ToolCall:
        """The call with what its vendor wants to see again, such as a signature of Google's."""
        if not details:
            return call
        kept = {**(call.additional_params or {}), VENDOR: self._vendor, VENDOR_DETAILS: details}
        return call.model_copy(update={"additional_params": freeze_object(kept)})


def _is_grounded(part: wire.ModelResponsePart) -> bool:
    """Whether a search went into the part, however its vendor tells of that."""
    match part:
        case wire.NativeToolCallPart() | wire.NativeToolReturnPart():
            return True
        case wire.TextPart(citations=citations):
            return bool(citations)
        case _:
            return False


def _usage_of(usage: RequestUsage) -> Usage:
    """The seven numbers. Input counts what was read from and written to a cache as well."""
    return Usage(
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        total_tokens=usage.input_tokens + usage.output_tokens,
        cached_input_tokens=usage.cache_read_tokens,
        cache_creation_input_tokens=usage.cache_write_tokens,
        tool_use_prompt_tokens=usage.details.get("tool_use_prompt_tokens", 0),
        reasoning_tokens=usage.output_reasoning_tokens,
    )


def _finish_reason(response: wire.ModelResponse, *, called: bool) -> FinishReason:
    kind = _FINISH_KINDS.get(response.finish_reason, "other")
    details = response.provider_details or {}
    detail = details.get("finish_reason", details.get("block_reason"))
    return FinishReason(
        kind="tool_calls" if called and kind == "stop" else kind,
        detail=None if detail is None else str(detail),
    )


def _argument_text(args: object) -> str | None:
    """The text as sent; of a vendor that sends a value, its JSON."""
    if args is None or isinstance(args, str):
        return None if args is None else _sound(args)
    return _sound(json.dumps(args, separators=(",", ":"), ensure_ascii=False))


def _sound(text: str) -> str:
    """The text without lone surrogates, which nothing behind us could store."""
    return text if text.isascii() else text.encode(errors="replace").decode()


def _correlator(index: int) -> str:
    return f"thought-{index}"


def _internal_id(index: int) -> str:
    return f"call-{index}"
