"""Condensing the history of a turn between two steps (run-context.md 10).

The AgentRun keeps every message. What is folded is left out of requests, where a summary stands for
it, so nothing that a replay or a checkpoint needs is ever lost.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from app.engine.compaction import estimated_size, estimated_tokens, plan_compaction
from app.turn.folded import Chunk, shown_places
from app.turn.ports import FailureKind
from app.turn.state.context import TurnFailed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from app.engine.commands import CallModel
    from app.turn.folded import CompactionSettings, Reason
    from app.turn.ports import ModelRequest
    from app.turn.state.context import TurnCtx

# A summary that failed is tried again after this many more messages.
RETRY_AFTER: Final = 4


async def compact_if_due(ctx: TurnCtx, command: CallModel) -> None:
    """Condense the history before the next model call, if it has grown too long."""
    compactor = ctx.agent.compactor
    if compactor is None:
        return
    whole = (*command.history, command.prompt)
    shown = list(shown_places(ctx.folded, len(whole)))
    messages = [whole[at] for at in shown]
    size = estimated_size(messages)
    reason = _due(ctx, compactor.settings, count=len(messages), size=size)
    if reason is None or len(messages) < ctx.compact_from:
        return
    plan = plan_compaction(messages, keep=compactor.settings.keep_messages, open_calls=())
    if plan is None:
        return
    # Places are read off the log, which must hold everything up to here: also what the run began
    # with, which waits for the first fact otherwise.
    await ctx.flush()
    await ctx.journal.record()
    pinned = None if plan.pinned is None else shown[plan.pinned]
    chunk = Chunk(
        messages=whole,
        places=[at for at in shown[: plan.cut] if at != pinned],
        cut=shown[plan.cut],
        pinned=pinned,
        reason=reason,
        tokens_before=size,
        tokens_kept=estimated_size(
            message for at, message in zip(shown, messages, strict=True) if at >= shown[plan.cut]
        ),
    )
    compacted = await compactor.compacted(chunk)
    if compacted is None:
        ctx.compact_from = len(messages) + RETRY_AFTER
        return
    ctx.state(compacted.payload, trust=compacted.trust, private=compacted.private)
    await ctx.flush()
    ctx.folded = compacted.folded
    ctx.compact_from = 0


def require_fitting(ctx: TurnCtx, request: ModelRequest) -> None:
    """Raise TurnFailed if the request is over what the model can read."""
    window = ctx.agent.context_window
    if window is None:
        return
    size = estimated_size(request.messages) + _beside(request.instructions, request.context)
    if size > window:
        told = f"the prompt takes about {size} tokens and the model reads {window}"
        raise TurnFailed(FailureKind.CONTEXT_WINDOW_EXCEEDED, told)


def _due(ctx: TurnCtx, settings: CompactionSettings, *, count: int, size: int) -> Reason | None:
    if count > settings.max_messages:
        return "message_count"
    window = ctx.agent.context_window
    blocks = (*ctx.agent.context, *(() if ctx.folded is None else (ctx.folded.block,)))
    whole = size + _beside(ctx.agent.instructions, blocks)
    if window is not None and whole > window * settings.window_share:
        return "token_budget"
    return None


def _beside(instructions: str, blocks: Sequence[str]) -> int:
    return sum(map(estimated_tokens, (instructions, *blocks)))
