"""The first half of a step: ask the model, put its reply into the AgentRun and into the log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from app.engine.errors import CompletionError
from app.engine.messages import AssistantMessage
from app.engine.turn_content import joined_text
from app.engine.usage import Usage
from app.log.calls import MessageAssistant
from app.log.runs import StepCompleted, StepDiscarded
from app.policy.taint import Trust
from app.turn.context import Partial, TurnFailed
from app.turn.dial import BrokenStream, dial
from app.turn.ports import FailureKind
from app.turn.reply import assemble, encode_reply, feed_reply, without_calls
from app.turn.reply_facts import reply_parts, usage_totals
from app.turn.request import model_request

if TYPE_CHECKING:
    from app.engine.commands import AgentRunStep, CallModel
    from app.engine.streaming import FinalItem, StreamedTurn
    from app.turn.context import TurnCtx
    from app.turn.dial import Collected

BROKEN: Final = "failed"


async def ask_model(ctx: TurnCtx, command: CallModel, *, is_closing: bool = False) -> AgentRunStep:
    """Ask, and feed the reply; what the AgentRun wants next. Raises TurnFailed."""
    ctx.steps += 1
    request = model_request(ctx, command, is_closing=is_closing)
    try:
        collected = await dial(ctx, request, first_attempt=_first_attempt(ctx))
    except BrokenStream as broken:
        partial = Partial(broken.items, BROKEN, Usage())
        raise TurnFailed(broken.error.kind, broken.error.message, partial=partial) from broken
    ctx.total_usage += collected.final.usage
    ctx.last_stop = _stop(collected.final)
    try:
        turn = assemble(ctx.run, collected.items, advertised=ctx.specs.names)
        if is_closing:
            turn = without_calls(turn)
        wanted = feed_reply(ctx.run, turn, collected.final)
    except CompletionError as error:
        partial = Partial(collected.items, ctx.last_stop or BROKEN, collected.final.usage)
        raise TurnFailed(FailureKind.OTHER, error.message, partial=partial) from error
    _accept(ctx, collected, turn)
    return wanted


def state_step_completed(ctx: TurnCtx, *, calls: int) -> None:
    """State that every call of the step at hand has its result."""
    usage = ctx.run.completion_calls()[-1].usage
    ctx.state(StepCompleted(calls=calls, usage=usage_totals(usage)))


def _first_attempt(ctx: TurnCtx) -> int:
    """The number of the first dial; takes back an attempt that an earlier worker left behind."""
    lost = ctx.transcript.interrupted_attempt
    if lost is None or ctx.steps > 1:
        return 1
    ctx.state(StepDiscarded(attempt=lost, reason="interrupted"))
    return lost + 1


def _stop(final: FinalItem) -> str | None:
    return None if final.finish_reason is None else final.finish_reason.kind


def _accept(ctx: TurnCtx, collected: Collected, turn: StreamedTurn) -> None:
    """State the reply. Grounded text is untrusted, and taints from the next step on."""
    ctx.last_text = joined_text(turn.choice)
    if turn.choice:
        ctx.outputs.append(AssistantMessage(id=turn.message_id, content=turn.choice))
    ctx.state(
        MessageAssistant(
            message_id=ctx.journal.message_id(),
            usage=usage_totals(collected.final.usage),
            stop=ctx.last_stop,
            content=reply_parts(turn.choice, ctx.transcript),
        ),
        trust=Trust.QUARANTINED_CONTENT if collected.is_grounded else Trust.UNSPECIFIED,
        private=encode_reply(turn, collected.final),
    )
    ctx.grounded = ctx.grounded or collected.is_grounded
