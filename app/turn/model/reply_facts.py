"""A model's reply as the log shows it: text, reasoning and calls with their canonical arguments."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, assert_never

from app.engine.json.arguments import Arguments
from app.engine.messages import AssistantImage, AssistantText, Reasoning, ToolCall
from app.engine.streaming.items import ReasoningDeltaItem, TextItem
from app.log.calls import ReplyPart
from app.log.payload import UsageTotals
from app.turn.state.call import read_arguments, sent_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from app.engine.messages import AssistantContent
    from app.engine.streaming.items import StreamItem
    from app.engine.usage import Usage
    from app.turn.transcript import Transcript


def usage_totals(usage: Usage) -> UsageTotals:
    """The counts in the log's own form."""
    return UsageTotals.model_construct(**dict(usage))


def reply_parts(
    content: Iterable[AssistantContent], transcript: Transcript, *, step: int
) -> tuple[ReplyPart, ...]:
    """The parts of the reply that the run has taken in a step, each call with its id."""
    return tuple(_parts(content, transcript, step))


def partial_parts(items: Iterable[StreamItem]) -> tuple[ReplyPart, ...]:
    """Reasoning and text of a reply that was cut off; calls cut off in it are dropped."""
    items = tuple(items)
    thought = "".join(item.text for item in items if isinstance(item, ReasoningDeltaItem))
    said = partial_text(items)
    reasoning = (ReplyPart(type="reasoning", text=thought),) if thought else ()
    text = (ReplyPart(type="text", text=said),) if said else ()
    return reasoning + text


def partial_text(items: Iterable[StreamItem]) -> str:
    """The text of a reply that was cut off."""
    return "".join(item.text for item in items if isinstance(item, TextItem))


def _parts(
    content: Iterable[AssistantContent], transcript: Transcript, step: int
) -> Iterator[ReplyPart]:
    index = count()
    for part in content:
        match part:
            case AssistantText(text=text):
                yield ReplyPart(type="text", text=text)
            case Reasoning():
                if thought := _open_text(part):
                    yield ReplyPart(type="reasoning", text=thought)
            case ToolCall():
                yield _call_part(part, transcript.call_id(step, next(index)))
            case AssistantImage():
                pass  # The engine's own form, beside the event, keeps it.
            case _:
                assert_never(part)


def _call_part(call: ToolCall, own_id: str) -> ReplyPart:
    match read_arguments(call):
        case Arguments() as args:
            return ReplyPart(
                type="tool_call",
                call_id=own_id,
                request_id=call.id,
                tool=call.name,
                args=args.value,
                args_canonical=args.canonical.decode(),
                args_sha256=args.sha256,
            )
        case _:
            # A lone surrogate has no bytes; it is shown escaped.
            shown = sent_text(call).encode(errors="backslashreplace").decode()
            return ReplyPart(
                type="tool_call",
                call_id=own_id,
                request_id=call.id,
                tool=call.name,
                args_text=shown,
            )


def _open_text(reasoning: Reasoning) -> str:
    """What of a block of reasoning is meant to be read."""
    return "".join(part.text for part in reasoning.content if part.type in {"text", "summary"})
