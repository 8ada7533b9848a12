"""The table of turn.md 3.4: every call takes the first row that fits.

The loop and the resume pre-pass use this one function, so live and resumed calls are judged alike.
A dangling call differs in three rows only: it needs no advertising (5), an open request or a
recorded start speaks for itself (6), and an earlier denial in this turn is not about it (8).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from app.engine.json.arguments import Arguments, Malformed
from app.log.calls import RetrievalMissed
from app.log.payload import CoveredBy
from app.policy.gate import Allow, Deny, Escalate, InjectContext, Modify
from app.turn import texts
from app.turn.attempt import Raised, attempt
from app.turn.gate.asking import ask
from app.turn.gate.decided import as_told, decided, open_request, schema_problems, started
from app.turn.gate.delegation import delegate
from app.turn.gate.gating import beyond_ceiling, ceiling_fact, gate, is_read_only
from app.turn.gate.questions import ask_or_answer
from app.turn.gate.verdict import Settle, Start, Verdict
from app.turn.state.call import last_arguments

if TYPE_CHECKING:
    from app.turn.gate.gating import Gated
    from app.turn.state.call import OpenCall
    from app.turn.state.context import TurnCtx


async def classify(ctx: TurnCtx, call: OpenCall) -> Verdict:
    """What becomes of one call, under the taint that holds now."""
    if call.tool in texts.RESERVED and call.tool not in ctx.specs:
        return _reserved(ctx, call)
    match call.args:
        case Malformed(defect=defect):
            refused = texts.malformed_arguments(call.tool, defect)
            return Settle(call=call, result=refused, outcome="malformed_arguments")
        case Arguments() as args if call.tool == texts.ASK_QUESTION:
            return ask_or_answer(ctx, call, args)
        case Arguments() as args if call.tool == texts.DELEGATE_TO:
            return delegate(ctx, call, args)
        case Arguments() as args:
            return await _sound(ctx, call, args)
        case _:
            assert_never(call.args)


def _reserved(ctx: TurnCtx, call: OpenCall) -> Settle:
    """Row 1: the reserved name is not in use, so the call is to an unknown tool."""
    alone = ctx.options.unattended or ctx.options.is_delegated_worker
    if call.tool == texts.ASK_QUESTION and alone:
        return Settle(call=call, result=texts.nobody_can_answer(), outcome="unknown_tool")
    return _unknown(call)


async def _sound(ctx: TurnCtx, call: OpenCall, args: Arguments) -> Verdict:
    """Rows 5 to 8: a call with sound arguments, up to the gate."""
    if (missed := await _unadvertised(ctx, call, args)) is not None:
        return missed
    if (start := call.start) is not None:
        # What is run again, and asked about, are the arguments that ran.
        args = last_arguments(start, args)
    if (decision := ctx.ledger.take(call, args)) is not None:
        return await decided(ctx, call, args, decision=decision)
    if start is not None:
        return await started(ctx, call, args, start=start)
    if call.is_asked:
        return await open_request(ctx, call, args)
    if problems := schema_problems(ctx, call, args):
        refused = texts.invalid_arguments(call.tool, problems)
        return Settle(call=call, result=refused, outcome="invalid_arguments")
    if not call.is_dangling and (denial := ctx.denied_sigs.get((call.tool, args.canonical))):
        outcome = "expired" if denial == texts.EXPIRED else "denied"
        return Settle(call=call, result=denial, outcome=outcome, repeats_denial=True)
    return await _judged(ctx, call, args)


async def _unadvertised(ctx: TurnCtx, call: OpenCall, args: Arguments) -> Settle | None:
    """Row 5. Scope is the executor's word: what it does not own runs under no circumstances."""
    if call.tool in ctx.specs:
        return None
    if not call.is_dangling and (found := await _recovered(ctx, call, args)):
        return Settle(
            call=call,
            result=texts.tools_now_available(call.tool, found),
            outcome="tools_now_available",
            facts=(RetrievalMissed(call_id=call.call_id, tool=call.tool, offered=found),),
        )
    return None if ctx.tools.owns(call.tool) else as_told(call, _unknown(call))


async def _recovered(ctx: TurnCtx, call: OpenCall, args: Arguments) -> tuple[str, ...]:
    """The names the escape hatch has found and pinned: once per turn, match or not (7.3)."""
    if not ctx.options.escape_hatch or ctx.escape_hatch_fired:
        return ()
    ctx.escape_hatch_fired = True
    search = ctx.tools.recover_unadvertised(call.tool, args.value)
    found = await attempt(search, doing="recover_unadvertised", call_id=call.call_id)
    new = () if isinstance(found, Raised) else ctx.specs.append(found)
    ctx.tainted = ctx.tainted or ctx.specs.trust.taints
    return tuple(spec.name for spec in new)


async def _judged(ctx: TurnCtx, call: OpenCall, args: Arguments) -> Verdict:
    """Rows 9 to 13: the ceiling, then the gate."""
    if excess := beyond_ceiling(ctx, ctx.tools.required_capabilities(call.tool)):
        return Settle(
            call=call,
            result=texts.outside_ceiling(call.tool, excess),
            outcome="outside_ceiling",
            facts=(ceiling_fact(call, texts.ceiling_reason(call.tool, excess)),),
        )
    gated = await gate(ctx, call, args)
    match gated.outcome:
        case Deny(reason=reason):
            refused = texts.denied_by_policy(reason)
            return Settle(
                call=call, result=refused, outcome="denied_by_policy", facts=(gated.fact(),)
            )
        case Escalate(missing=missing):
            session = ctx.session_approval(call.tool)
            if session and session.fits(missing, cacheable=ctx.tools.cacheable_approval(call.tool)):
                return _free(gated, args, CoveredBy(kind="session", id=session.approval_id))
            return ask(ctx, gated, args)
        case Allow() | Modify() | InjectContext():
            return _free(gated, args)
        case _:
            assert_never(gated.outcome)


def _free(gated: Gated, args: Arguments, session: CoveredBy | None = None) -> Start:
    fact = gated.fact(session)
    return Start(
        call=gated.call,
        args=args,
        is_ordered=False,
        is_read_only=is_read_only(gated.required),
        covered_by=fact.covered_by,
        mutation=gated.mutation,
        replay=gated.replay,
        facts=(fact,),
    )


def _unknown(call: OpenCall) -> Settle:
    return Settle(call=call, result=texts.unknown_tool(call.tool), outcome="unknown_tool")
