"""`run_turn`: one turn of one agent, from its options to its result (turn.md 2.1, 3).

The stages run in order: what an earlier turn left open, the steps, the closing completion. Waiting
for a person is a result, never a blocked coroutine. Cancelling is safe at every await: whatever
has an effect is in the log before it happens, and tools that are running are cancelled and awaited.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.engine.messages import AssistantMessage, AssistantText
from app.log.calls import MessageAssistant
from app.policy.taint import Trust
from app.turn.clock import LoopClock
from app.turn.forms.output import output_tool
from app.turn.forms.question import ASK_QUESTION_SPEC
from app.turn.gate.delegation import delegate_spec
from app.turn.limits import DEFAULT_MAX_STEPS
from app.turn.model.reply_facts import partial_parts, partial_text, usage_totals
from app.turn.model.step import BROKEN
from app.turn.result import EndedBy, MidStreamFailure, TurnFailure, TurnResult
from app.turn.stages.decision_report import report_unused
from app.turn.stages.loop import ClosingCompletion, StepLoop
from app.turn.stages.prepass import ResumePrePass
from app.turn.state.answers import AnswerBook
from app.turn.state.context import StepOutcome, TurnCtx, TurnFailed, TurnStep
from app.turn.state.ledger import DecisionLedger
from app.turn.state.specs import PinnedSpecs
from app.turn.state.taint import transcript_taints

if TYPE_CHECKING:
    from app.turn.agent import BoundAgent
    from app.turn.options import RunTurnOptions
    from app.turn.ports import Journal, Provider, ToolExecutor, ToolSpec
    from app.turn.state.context import Partial
    from app.turn.transcript import Transcript

INCOMPLETE = "incomplete"


async def run_turn(  # noqa: PLR0913 - the signature is turn.md 2.1's
    provider: Provider,
    tools: ToolExecutor,
    agent: BoundAgent,
    transcript: Transcript,
    options: RunTurnOptions,
    *,
    run_id: str,
    turn_id: str,
    journal: Journal,
) -> TurnResult:
    """Drive the transcript's run until it pauses or ends. Raises ValueError for bad options."""
    max_steps = _max_steps(options)
    specs = PinnedSpecs(tools.specs(), _own_specs(agent, options))
    recovered = transcript.so_far.recovered
    specs.append(spec for name in recovered or () if (spec := tools.spec(name)) is not None)
    output = output_tool(transcript.run, agent.output_schema, tools)
    ctx = TurnCtx(
        provider=provider,
        tools=tools,
        agent=agent,
        options=options,
        transcript=transcript,
        journal=journal,
        clock=options.clock or LoopClock(),
        run_id=run_id,
        turn_id=turn_id,
        max_steps=max_steps,
        now_unix_ms=_turn_start(options),
        specs=specs,
        ledger=DecisionLedger(options),
        answers=AnswerBook(options.question_answers),
        nested=run_turn,
        delegations_used=transcript.delegated_in_turn,
        step=transcript.run.turn(),
        steps=transcript.steps_in_turn,
        malformed_steps=transcript.so_far.malformed_steps,
        denial_reprompts=transcript.so_far.denial_reprompts,
        denied_sigs=dict(transcript.so_far.denied),
        escape_hatch_fired=recovered is not None,
        last_text=transcript.last_text,
        folded=transcript.folded,
        output=output,
        tainted=(
            options.untrusted_context_seed
            or specs.trust.taints
            or transcript_taints(transcript.run.full_history(), tools, output)
        ),
    )
    return await _run_stages(ctx)


async def _run_stages(ctx: TurnCtx) -> TurnResult:
    failure = mid_stream = None
    if not ctx.run.is_done():
        ctx.run.max_turns(ctx.transcript.steps_before + ctx.max_steps)
    try:
        stages = iter(_stages(ctx))
        while await next(stages).run(ctx) is StepOutcome.CONTINUE:
            continue
    except TurnFailed as failed:
        ctx.ended_by = EndedBy.FAILURE
        failure = TurnFailure(failed.kind, failed.message)
        if failed.partial is not None:
            mid_stream = _keep_partial(ctx, failed, failed.partial)
    if failure is None:
        ctx.conclude()
    else:
        # How a failed turn ends follows from what the log says of its calls.
        await ctx.flush()
    report_unused(ctx)
    return _result(ctx, failure, mid_stream)


def _own_specs(agent: BoundAgent, options: RunTurnOptions) -> list[ToolSpec]:
    """What the turn offers itself: workers, and a question where somebody is there to answer it."""
    attended = not options.unattended and not options.is_delegated_worker
    delegating = delegate_spec(options)
    asking = [ASK_QUESTION_SPEC] if agent.asks_questions and attended else []
    return asking if delegating is None else [delegating, *asking]


def _stages(ctx: TurnCtx) -> tuple[TurnStep, ...]:
    ledger = ctx.ledger
    prepass = ResumePrePass(ctx.specs.all, ledger.approved_overrides, ledger.denied_call_ids)
    return (prepass, StepLoop(), ClosingCompletion())


def _max_steps(options: RunTurnOptions) -> int:
    """The step cap of the turn: the option, what the settings say, 8 (turn.md 2.2)."""
    given = options.max_steps if options.max_steps is not None else options.default_max_steps
    if given is not None and given < 1:
        raise ValueError(f"max_steps: expected at least 1, found {given}")
    return DEFAULT_MAX_STEPS if given is None else given


def _turn_start(options: RunTurnOptions) -> int | None:
    """ "Now" as shown to the model; without a clock nobody has told us the time."""
    if options.turn_start_unix_ms is not None:
        return options.turn_start_unix_ms
    return None if options.clock is None else options.clock.now_ms()


def _keep_partial(ctx: TurnCtx, failed: TurnFailed, partial: Partial) -> MidStreamFailure | None:
    """Keep what had arrived as a marked message; it has no form the AgentRun could take."""
    parts, text = partial_parts(partial.items), partial_text(partial.items)
    ctx.last_text = text
    ctx.last_stop = partial.stop
    if parts:
        ctx.state(
            MessageAssistant(
                message_id=ctx.journal.message_id(),
                usage=usage_totals(partial.usage),
                stop=partial.stop,
                content=parts,
            ),
            trust=Trust.QUARANTINED_CONTENT if partial.may_be_grounded else Trust.UNSPECIFIED,
        )
    if text:
        marked = AssistantText(text=text, additional_params={INCOMPLETE: True})
        ctx.outputs.append(AssistantMessage(content=(marked,)))
    if partial.stop != BROKEN:
        return None
    return MidStreamFailure(failed.kind, failed.message, had_text=bool(text))


def _result(
    ctx: TurnCtx, failure: TurnFailure | None, mid_stream: MidStreamFailure | None
) -> TurnResult:
    return TurnResult(
        messages=tuple(ctx.outputs),
        usage=ctx.total_usage,
        stop=ctx.last_stop,
        ended_by=ctx.ended_by,
        text=ctx.last_text,
        steps=ctx.steps,
        executed_calls=ctx.executed_calls,
        tainted=ctx.tainted,
        pending_approvals=tuple(ctx.pending_approvals),
        pending_questions=tuple(ctx.pending_questions),
        unattended_denials=tuple(ctx.unattended_denials),
        grant_replays=tuple(ctx.grant_replays),
        delegate_records=tuple(ctx.delegate_records),
        paused_workers=tuple(ctx.paused_workers),
        mid_stream_failure=mid_stream,
        failure=failure,
        grounded=ctx.grounded,
    )
