"""The stages after the pre-pass: the steps up to the cap, and the closing completion.

A batch belongs to the step that emitted it. Grounded text taints the steps that follow, so the
taint of a step is fixed before its batch is judged and widened after.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.engine.commands import CallModel, CallTools, Done
from app.engine.json.arguments import Malformed
from app.log.runs import StepDiscarded
from app.turn.gate.verdict import Settle
from app.turn.limits import DENIAL_REPROMPTS, MALFORMED_STEPS_IN_A_ROW
from app.turn.model.step import ask_model, state_step_completed
from app.turn.ports import FailureKind
from app.turn.result import EndedBy
from app.turn.stages.batch import resolve_batch
from app.turn.state.call import live_calls
from app.turn.state.context import StepOutcome, TurnFailed

if TYPE_CHECKING:
    from app.turn.state.context import TurnCtx


class StepLoop:
    """Model call, batch, model call: until an answer, a pause, or a cap."""

    async def run(self, ctx: TurnCtx) -> StepOutcome:
        """CONTINUE means that a closing completion is due."""
        if (response := ctx.run.response()) is not None:
            # A lost worker has put the answer into the log; only the run's end is missing.
            ctx.last_text = response.output
            return _ended(ctx, _answered_by(ctx))
        while (outcome := _limited(ctx)) is None:
            if (outcome := await _step(ctx, _due(ctx))) is not None:
                break
        return outcome


class ClosingCompletion:
    """One last model call without tools, for the words the turn owes (turn.md 3.8)."""

    async def run(self, ctx: TurnCtx) -> StepOutcome:
        """If the call fails, the turn returns what it has."""
        ctx.run.max_turns(ctx.run.turn() + 1)
        command = _due(ctx)
        try:
            await ask_model(ctx, command, is_closing=True)
        except TurnFailed as failed:
            ctx.state(StepDiscarded(attempt=ctx.attempt, reason=failed.kind.value))
        return StepOutcome.FINISH


def _answered_by(ctx: TurnCtx) -> EndedBy:
    """What brought the answer: beyond a cap it is the closing completion's."""
    if ctx.steps > ctx.max_steps:
        return EndedBy.STEP_CAP
    return EndedBy.DENIAL_CAP if ctx.denial_reprompts > DENIAL_REPROMPTS else EndedBy.ANSWER


def _limited(ctx: TurnCtx) -> StepOutcome | None:
    """How the turn goes on where a limit is reached; None where a step may follow.

    Raises TurnFailed after the third step in a row that held malformed arguments. A lost worker may
    have reached a limit and not its consequence, so all of them are looked at before every step.
    """
    if ctx.malformed_steps >= MALFORMED_STEPS_IN_A_ROW:
        raise TurnFailed(
            FailureKind.MALFORMED_ARGUMENTS,
            f"the model sent malformed arguments in {ctx.malformed_steps} steps in a row",
        )
    if ctx.denial_reprompts > DENIAL_REPROMPTS:
        return _closing_due(ctx, EndedBy.DENIAL_CAP)
    if ctx.steps < ctx.max_steps:
        return None
    if ctx.last_text.strip():
        return _ended(ctx, EndedBy.STEP_CAP)
    return _closing_due(ctx, EndedBy.STEP_CAP)


def _due(ctx: TurnCtx) -> CallModel:
    """The model call the AgentRun wants next, or has wanted since it refused an answer."""
    if ctx.run.state() == "awaiting_model":
        return ctx.run.reissue()
    command = ctx.run.next_step()
    if isinstance(command, CallModel):
        return command
    raise TurnFailed(
        FailureKind.INTERNAL, f"expected a model call to be due, found {command.step!r}"
    )


async def _step(ctx: TurnCtx, command: CallModel) -> StepOutcome | None:
    """One step; None if another follows."""
    grounded_before = ctx.grounded
    match await ask_model(ctx, command):
        case Done():
            return _ended(ctx, EndedBy.ANSWER)
        case CallModel():
            ctx.malformed_steps = 0
            return None
        case CallTools() as wanted:
            return await _batch(ctx, wanted, was_grounded=grounded_before)


async def _batch(ctx: TurnCtx, wanted: CallTools, *, was_grounded: bool) -> StepOutcome | None:
    """The second half of a step; None if another follows."""
    calls = live_calls(wanted.calls, ctx.transcript, turn_id=ctx.turn_id)
    verdicts = await resolve_batch(ctx, calls)
    if ctx.grounded and not was_grounded:
        ctx.tainted = True
    if ctx.waits_for_people:
        ctx.ended_by = EndedBy.PAUSE
        return StepOutcome.PAUSE
    state_step_completed(ctx, calls=len(calls))
    is_malformed = any(isinstance(call.args, Malformed) for call in calls)
    ctx.malformed_steps = ctx.malformed_steps + 1 if is_malformed else 0
    ctx.denial_reprompts += any(
        isinstance(verdict, Settle) and verdict.repeats_denial for verdict in verdicts
    )
    return None


def _ended(ctx: TurnCtx, ended_by: EndedBy) -> StepOutcome:
    ctx.ended_by = ended_by
    return StepOutcome.FINISH


def _closing_due(ctx: TurnCtx, ended_by: EndedBy) -> StepOutcome:
    ctx.ended_by = ended_by
    return StepOutcome.CONTINUE
