"""The first half of a step: ask the model, put its reply into the AgentRun and into the log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from app.engine.commands import CallTools, Done
from app.engine.errors import CompletionError
from app.engine.messages import AssistantMessage
from app.engine.turn_content import joined_text, tool_calls
from app.engine.usage import Usage
from app.log.calls import MessageAssistant, ToolSettled
from app.log.runs import StepCompleted, StepDiscarded
from app.policy.taint import Trust
from app.turn.forms.output import settled_calls
from app.turn.model.compaction import compact_if_due, require_fitting
from app.turn.model.dial import BrokenStream, dial
from app.turn.model.reply import assemble, encode_reply, feed_reply, without_calls
from app.turn.model.reply_facts import reply_parts, usage_totals
from app.turn.model.request import model_request
from app.turn.ports import FailureKind
from app.turn.state.context import Partial, TurnFailed

if TYPE_CHECKING:
    from app.engine.commands import CallModel
    from app.engine.streaming.items import FinalItem, StreamedTurn
    from app.turn.model.dial import Collected
    from app.turn.state.context import TurnCtx

BROKEN: Final = "failed"


async def ask_model(
    ctx: TurnCtx, command: CallModel, *, is_closing: bool = False
) -> CallModel | CallTools | Done:
    """Ask, and feed the reply; what the AgentRun wants next. Raises TurnFailed.

    The step is complete unless the run wants tools.
    """
    ctx.steps += 1
    ctx.step = command.turn
    if ctx.output is not None and ctx.output.is_taken:
        told = f"the output tool {ctx.output.name!r} has the name of a tool of the agent"
        raise TurnFailed(FailureKind.BAD_REQUEST, told)
    await compact_if_due(ctx, command)
    request = model_request(ctx, command, is_closing=is_closing)
    require_fitting(ctx, request)
    try:
        collected = await dial(ctx, request, first_attempt=_first_attempt(ctx))
    except BrokenStream as broken:
        partial = Partial(broken.items, BROKEN, Usage(), may_be_grounded=request.web_search)
        raise TurnFailed(broken.error.kind, broken.error.message, partial=partial) from broken
    ctx.total_usage += collected.final.usage
    ctx.last_stop = _stop(collected.final)
    try:
        turn = _assembled(ctx, collected, is_closing=is_closing)
        wanted = feed_reply(ctx.run, turn, collected.final)
    except CompletionError as error:
        partial = Partial(
            collected.items,
            ctx.last_stop or BROKEN,
            collected.final.usage,
            may_be_grounded=collected.is_grounded,
        )
        kind = FailureKind.OUTPUT_INVALID if _called_output(ctx, error) else FailureKind.OTHER
        raise TurnFailed(kind, error.message, partial=partial) from error
    _accept(ctx, collected, turn)
    if not isinstance(wanted, CallTools):
        _end_step(ctx, turn, wanted)
    return wanted


def state_step_completed(ctx: TurnCtx, *, calls: int) -> None:
    """State that every call of the step at hand has its result."""
    usage = ctx.run.completion_calls()[-1].usage
    ctx.state(StepCompleted(calls=calls, usage=usage_totals(usage)))


def _assembled(ctx: TurnCtx, collected: Collected, *, is_closing: bool) -> StreamedTurn:
    output = None if is_closing or ctx.output is None else ctx.output.name
    turn = assemble(ctx.run, collected.items, advertised=ctx.specs.names, output_tool=output)
    return without_calls(turn) if is_closing else turn


def _called_output(ctx: TurnCtx, error: CompletionError) -> bool:
    """Whether a reply was refused that tried to answer by the output tool."""
    name = None if ctx.output is None else ctx.output.name
    return any(call.name == name for _, call in tool_calls(error.content))


def _end_step(ctx: TurnCtx, turn: StreamedTurn, wanted: Done | CallModel) -> None:
    """State the end of a step that has no batch: the run is done, or asks for a better answer."""
    name = "" if ctx.output is None else ctx.output.name
    settled = tuple(settled_calls(turn.choice, wanted, name=name))
    for index, (call, result, outcome) in enumerate(settled):
        own_id = ctx.transcript.call_id(ctx.step, index)
        ctx.state(ToolSettled(call_id=own_id, tool=call.name, result=result, outcome=outcome))
    if isinstance(wanted, Done):
        ctx.last_text = wanted.response.output
    state_step_completed(ctx, calls=len(settled))


def _first_attempt(ctx: TurnCtx) -> int:
    """The number of the first dial; takes back an attempt that an earlier worker left behind."""
    lost = ctx.transcript.interrupted_attempt
    if lost is None or ctx.steps > ctx.transcript.steps_in_turn + 1:
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
            content=reply_parts(turn.choice, ctx.transcript, step=ctx.step),
        ),
        trust=Trust.QUARANTINED_CONTENT if collected.is_grounded else Trust.UNSPECIFIED,
        private=encode_reply(turn, collected.final, max_turns=_allowance(ctx)),
    )
    ctx.grounded = ctx.grounded or collected.is_grounded


def _allowance(ctx: TurnCtx) -> int | None:
    """How far the run could go when the reply was fed, where a replay must know."""
    if ctx.output is None:
        return None
    return ctx.max_steps + ctx.step - ctx.steps
