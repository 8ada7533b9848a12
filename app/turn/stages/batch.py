"""One batch of calls, from its first call to results for all or to a pause (turn.md 3.5, 3.6).

While a person decides on one call, nothing with an effect runs that no person has ordered: such
siblings wait, and the pre-pass of the resumed turn resolves them. Read-only siblings run at once,
and if they bring in untrusted content, the gate is asked again about whatever is still open, so
the person sees on one card what is missing under taint.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.engine.messages import UserMessage
from app.log.calls import ToolSettled
from app.turn.execution.execute import execute
from app.turn.execution.mutations import mutated
from app.turn.execution.results import ResultOrder
from app.turn.gate.classify import classify
from app.turn.gate.delegation import within_caps
from app.turn.gate.gating import has_ended
from app.turn.gate.verdict import Ask, AskQuestions, Delegation, Settle, Start
from app.turn.model.reply import answer_executed, answer_settled, result_of
from app.turn.transcript import Note

if TYPE_CHECKING:
    from collections.abc import Sequence

    from app.engine.commands import ToolAnswer
    from app.turn.gate.verdict import Verdict
    from app.turn.ports import Fact
    from app.turn.state.call import OpenCall
    from app.turn.state.context import TurnCtx


async def resolve_batch(ctx: TurnCtx, calls: Sequence[OpenCall]) -> list[Verdict]:
    """Resolve what can be resolved; the verdicts that were acted on.

    The other calls stay open; those that need a person are in the pending items of the turn.
    """
    done: list[Settle | Start | Delegation] = []
    answers: list[ToolAnswer] = []
    notes_after = len(ctx.run.messages()) + 1
    waiting = within_caps(ctx, [await classify(ctx, call) for call in calls])
    while True:
        waiting = [await _still_granted(ctx, verdict) for verdict in waiting]
        ready, waiting = _split(ctx, waiting)
        if not ready:
            break
        tainted_before = ctx.tainted
        final = [await mutated(ctx, one) if isinstance(one, Start) else one for one in ready]
        answers += await _act(ctx, final)
        done += final
        if ctx.tainted and not tainted_before:
            waiting = [await _reconsidered(ctx, verdict) for verdict in waiting]
    _add_output(ctx, calls, answers)
    _add_notes(ctx, done, after=notes_after)
    for verdict in waiting:
        if isinstance(verdict, Ask):
            ctx.pending_approvals.append(verdict.approval)
            ctx.state_all(verdict.facts)
        elif isinstance(verdict, AskQuestions):
            ctx.pending_questions.extend(verdict.questions)
    return [*done, *waiting]


def _split(
    ctx: TurnCtx, verdicts: Sequence[Verdict]
) -> tuple[list[Settle | Start | Delegation], list[Verdict]]:
    """What may be acted on now, and what waits for a person or for those who do."""
    is_pausing = ctx.waits_for_people or any(
        isinstance(verdict, Ask | AskQuestions) for verdict in verdicts
    )
    ready: list[Settle | Start | Delegation] = []
    waiting: list[Verdict] = []
    for verdict in verdicts:
        if isinstance(verdict, Ask | AskQuestions) or (
            is_pausing and not _needs_no_person(verdict)
        ):
            waiting.append(verdict)
        else:
            ready.append(verdict)
    return ready, waiting


def _needs_no_person(verdict: Settle | Start | Delegation) -> bool:
    """Whether the verdict may be acted on while a person decides on a sibling."""
    return isinstance(verdict, Settle) or verdict.is_ordered or verdict.is_read_only


async def _still_granted(ctx: TurnCtx, verdict: Verdict) -> Verdict:
    """The verdict, without a remembered grant that has ended since the turn read it."""
    while isinstance(verdict, Start) and verdict.replay is not None:
        if not await has_ended(ctx, verdict.replay):
            break
        verdict = await classify(ctx, verdict.call)
    return verdict


async def _reconsidered(ctx: TurnCtx, verdict: Verdict) -> Verdict:
    """The verdict under the taint that a sibling has just brought in."""
    if isinstance(verdict, AskQuestions | Delegation):
        return verdict
    if isinstance(verdict, Ask) and not verdict.is_fresh:
        return verdict
    return await classify(ctx, verdict.call)


async def _act(ctx: TurnCtx, verdicts: Sequence[Settle | Start | Delegation]) -> list[ToolAnswer]:
    """Settle and run, and give the answers to the AgentRun, which puts them in source order."""
    order = ResultOrder(len(verdicts))
    answers: list[ToolAnswer] = []
    for verdict in verdicts:
        ctx.state_all(verdict.facts)
    for index, verdict in enumerate(verdicts):
        if isinstance(verdict, Settle):
            ctx.facts.extend(order.put(index, _settled(ctx, verdict)))
            answers.append(answer_settled(verdict.call.pending, verdict.result))
    begun = {
        index: verdict
        for index, verdict in enumerate(verdicts)
        if isinstance(verdict, Start | Delegation)
    }
    for index, text in (await execute(ctx, begun, order)).items():
        answers.append(answer_executed(begun[index].call.pending, text))
    ctx.run.answer_tool_calls(answers)
    return answers


def _settled(ctx: TurnCtx, verdict: Settle) -> Fact:
    if verdict.unattended is not None:
        ctx.unattended_denials.append(verdict.unattended)
    ctx.tainted = ctx.tainted or verdict.trust.taints
    return ctx.fact(
        ToolSettled(
            call_id=verdict.call.call_id,
            tool=verdict.call.tool,
            result=verdict.result,
            outcome=verdict.outcome,
        ),
        trust=verdict.trust,
    )


def _add_output(ctx: TurnCtx, calls: Sequence[OpenCall], answers: Sequence[ToolAnswer]) -> None:
    """The message of this turn's results, in source order."""
    by_position = {answer.position: answer for answer in answers}
    results = tuple(
        result_of(call.pending, by_position[call.pending.position])
        for call in calls
        if call.pending.position in by_position
    )
    if results:
        ctx.outputs.append(UserMessage(content=results))


def _add_notes(
    ctx: TurnCtx, verdicts: Sequence[Settle | Start | Delegation], *, after: int
) -> None:
    """Notes for the model alone, right after the results of their batch, in source order."""
    ctx.notes += [
        Note(after_messages=after, text=verdict.note) for verdict in verdicts if verdict.note
    ]
