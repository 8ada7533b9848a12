"""One model reply between stream, AgentRun and log.

The log keeps a reply in the engine's own form beside its `message.assistant` event. Whoever
rebuilds an AgentRun from the log feeds the same replies and the same answers through the functions
below, and gets the same run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

import structlog

from app.engine.commands import Skip
from app.engine.json.text import parse_json
from app.engine.messages import (
    AssistantText,
    ToolCall,
    ToolResult,
    ToolResultJson,
    ToolResultText,
)
from app.engine.streaming.assembler import StreamedTurnAssembler
from app.engine.streaming.items import FinalItem, StreamedTurn, ToolCallItem, ToolCallNameItem
from app.engine.turn_policy import TurnPolicy
from app.engine.value import Value

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from app.engine.agent_run import AgentRun
    from app.engine.commands import AgentRunStep, PendingToolCall, ToolAnswer
    from app.engine.messages import ToolResultContent
    from app.engine.streaming.items import StreamItem

_NAMELESS: Final = "unnamed_tool"
_log = structlog.get_logger(__name__)


class _StoredReply(Value):
    """The private bytes of `message.assistant`; `raw` is never kept.

    `max_turns` says how far the run could go where that matters: whether a poor answer is asked for
    again hangs on it.
    """

    v: Literal[1] = 1
    turn: StreamedTurn
    final: FinalItem
    max_turns: int | None = None


def assemble(
    run: AgentRun,
    items: Sequence[StreamItem],
    *,
    advertised: Iterable[str],
    output_tool: str | None = None,
) -> StreamedTurn:
    """The whole reply, its names not judged: every name in it passes (turn.md 3.2).

    Without `output_tool` none was offered. Raises CompletionError for arguments of no call.
    """
    items = [_named(item) for item in items]
    called = {
        item.tool_call.name if isinstance(item, ToolCallItem) else item.name
        for item in items
        if isinstance(item, ToolCallItem | ToolCallNameItem)
    }
    policy = TurnPolicy(
        executable_tools=tuple(called.union(advertised) - {output_tool}),
        output_tool=output_tool,
        output_tool_withheld=output_tool is None,
    )
    assembler = StreamedTurnAssembler(run.effective_policy(policy))
    message_id = None
    for item in items:
        assembler.ingest(item)
        if isinstance(item, FinalItem):
            message_id = item.message_id
    if excluded := assembler.excluded_assistant_content():
        _log.warning("reply.content_excluded", parts=excluded, step=run.turn())
    text = assembler.aggregated_text()
    return assembler.finish(message_id, (AssistantText(text=text),) if text else ())


def without_calls(turn: StreamedTurn) -> StreamedTurn:
    """The reply as if it had called nothing."""
    kept = tuple(part for part in turn.choice if not isinstance(part, ToolCall))
    return turn.model_copy(update={"choice": kept, "internal_call_ids": ()})


def feed_reply(run: AgentRun, turn: StreamedTurn, final: FinalItem) -> AgentRunStep:
    """Record and feed a reply. Raises CompletionError for one that was cut without an answer."""
    run.record_streamed_completion_call(
        final.usage,
        message_id=final.message_id,
        response_id=final.response_id,
        provider_request_id=final.provider_request_id,
        finish_reason=final.finish_reason,
        raw=None,
    )
    run.streamed_turn(turn)
    return run.next_step()


def encode_reply(turn: StreamedTurn, final: FinalItem, *, max_turns: int | None = None) -> bytes:
    """A reply as the log keeps it, without the provider's body.

    `max_turns` is what the run was allowed when it was fed; only an output tool makes it matter.
    """
    stored = _StoredReply(
        turn=turn, final=final.model_copy(update={"raw": None}), max_turns=max_turns
    )
    absent = {"max_turns"} if max_turns is None else None
    return stored.model_dump_json(exclude=absent).encode()


def decode_reply(private: bytes) -> tuple[StreamedTurn, FinalItem]:
    """The reply of stored bytes. Raises ValueError for any other bytes."""
    stored = _StoredReply.model_validate_json(private)
    return stored.turn, stored.final


def replay_reply(run: AgentRun, private: bytes) -> AgentRunStep:
    """Take a run that is about to ask through one stored step: to its batch, its end, or on."""
    stored = _StoredReply.model_validate_json(private)
    if run.state() != "awaiting_model":
        run.max_turns(run.turn() + 1)
        run.next_step()
    run.max_turns(stored.max_turns or run.turn())
    return feed_reply(run, stored.turn, stored.final)


def answer_executed(pending: PendingToolCall, text: str) -> ToolAnswer:
    """What a tool answered; also for a replay of `tool.completed` and `tool.failed`."""
    return pending.answer(text)


def answer_settled(pending: PendingToolCall, text: str) -> ToolAnswer:
    """A result without an execution; also for a replay of `tool.settled`.

    It stands as JSON in the transcript, so that nobody takes it for what a tool brought in.
    """
    if pending.kind == "malformed":
        return pending.answer_malformed(Skip(reason=text))
    try:
        value = parse_json(text)
    except ValueError:
        return pending.answer(text)
    return pending.answer((ToolResultJson(value=value),))


def result_of(pending: PendingToolCall, answer: ToolAnswer) -> ToolResult:
    """The result that an answer stands for."""
    content: tuple[ToolResultContent, ...] | None = answer.content
    if content is None:
        reason = answer.action.reason if isinstance(answer.action, Skip) else ""
        content = (ToolResultText(text=reason),)
    return ToolResult.of(pending.tool_call, content)


def _named(item: StreamItem) -> StreamItem:
    """A call without a name gets one, since neither a policy nor a provider takes an empty one."""
    match item:
        case ToolCallItem(tool_call=call) if not call.name:
            return item.model_copy(update={"tool_call": call.renamed(_NAMELESS)})
        case ToolCallNameItem(name=""):
            return item.model_copy(update={"name": _NAMELESS})
        case _:
            return item
