"""Calls a decision speaks about, and calls that were started before (turn.md 4.3, 6.4, 6.5).

Policy that was tightened since the decision wins; policy that was loosened changes nothing. Taint
is left aside: what arrived after a call was emitted cannot have shaped it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from app.engine.json.arguments import Arguments, Malformed, parse_arguments
from app.log.approvals import ApprovalResolved
from app.log.calls import PolicyRechecked
from app.log.payload import CoveredBy
from app.policy.gate import Deny
from app.turn import texts
from app.turn.forms.schema import off_schema
from app.turn.gate.asking import ask_anew, ask_to_rerun, still_asked
from app.turn.gate.gating import beyond_ceiling, gate, is_read_only, veto
from app.turn.gate.verdict import Settle, Start, Verdict
from app.turn.ports import FailureKind
from app.turn.state.context import TurnFailed

if TYPE_CHECKING:
    from app.policy.capability import CapabilitySet
    from app.turn.options import ApprovalDecision
    from app.turn.ports import ToolSpec
    from app.turn.state.call import OpenCall
    from app.turn.state.context import TurnCtx
    from app.turn.transcript import LoggedCall


async def decided(
    ctx: TurnCtx, call: OpenCall, proposed: Arguments, *, decision: ApprovalDecision
) -> Verdict:
    """What becomes of a call a person has decided on. The decision counts as used."""
    if not decision.approved:
        return _denied(ctx, call, proposed, decision)
    edit = _resolve_edit(decision, proposed)
    match edit:
        case Malformed(defect=defect):
            refused = texts.malformed_arguments(call.tool, defect)
            return as_told(call, Settle(call=call, result=refused, outcome="malformed_arguments"))
        case Arguments() as args:
            return await _approved(ctx, call, proposed, args=args, decision=decision)
        case _:
            assert_never(edit)


async def _approved(
    ctx: TurnCtx,
    call: OpenCall,
    proposed: Arguments,
    *,
    args: Arguments,
    decision: ApprovalDecision,
) -> Verdict:
    """The four checks of turn.md 6.4, right before the execution, on what is to run."""
    if (refusal := await _refused(ctx, call, args)) is not None:
        return as_told(call, refusal)
    if decision.covered is not None and _grown(ctx, call, decision.covered):
        return await _asked_anew(ctx, call, proposed, decision=decision)
    if _is_redefined(ctx, call, decision):
        reason = texts.redefined_reason(call.tool)
        return await _asked_anew(ctx, call, proposed, decision=decision, reason=reason)
    if decision.effective_sha256 not in {None, args.sha256}:
        raise TurnFailed(
            FailureKind.INTERNAL,
            f"call {call.call_id!r}: the arguments to run are not those that were signed",
        )
    return Start(
        call=call,
        args=args,
        is_ordered=True,
        is_read_only=is_read_only(ctx.tools.required_capabilities(call.tool)),
        covered_by=_covered_by(decision),
        sandbox_mode=decision.sandbox_mode,
        is_edited=_is_edited(call, args, proposed),
        note=_note(decision),
    )


def _resolve_edit(decision: ApprovalDecision, proposed: Arguments) -> Arguments | Malformed:
    """The arguments an approval lets run. An edit that equals the proposal is none."""
    edit = decision.override
    if edit is None or not edit.modified_args_json:
        return proposed
    return parse_arguments(edit.modified_args_json)


async def open_request(ctx: TurnCtx, call: OpenCall, args: Arguments) -> Verdict:
    """A call whose request is open: only a session approval given meanwhile resolves it.

    Where one has answered already, policy that was tightened since refuses the call as it would
    after any other approval, and nobody is asked about what could not run.
    """
    if not call.has_open_request and (refusal := await _refused(ctx, call, args)) is not None:
        return refusal
    gated = await gate(ctx, call, args)
    session = ctx.session_approval(call.tool)
    if (
        session is None
        or isinstance(gated.outcome, Deny)
        or beyond_ceiling(ctx, gated.required)
        or not session.fits(gated.missing, cacheable=ctx.tools.cacheable_approval(call.tool))
    ):
        return still_asked(ctx, gated, args)
    covered_by = CoveredBy(kind="session", id=session.approval_id)
    return Start(
        call=call,
        args=args,
        is_ordered=True,
        is_read_only=is_read_only(gated.required),
        covered_by=covered_by,
        replay=gated.replay,
        facts=(*_resolved(call, covered_by), gated.fact(covered_by)),
    )


async def started(ctx: TurnCtx, call: OpenCall, args: Arguments, *, start: LoggedCall) -> Verdict:
    """A call whose outcome is unknown. Nothing with an effect is run again silently.

    Whoever was asked about it is asked still, though policy that was loosened since asks nobody.
    """
    required = ctx.tools.required_capabilities(call.tool)
    may_run_again = is_read_only(required) or ctx.tools.is_idempotent(call.tool)
    if may_run_again and not call.has_open_request:
        return await _run_again(ctx, call, args, start=start)
    return await _asked_to_rerun(ctx, call, args)


async def _run_again(
    ctx: TurnCtx, call: OpenCall, args: Arguments, *, start: LoggedCall
) -> Verdict:
    if (refusal := await _refused(ctx, call, args)) is not None:
        return as_told(call, refusal)
    if _grown(ctx, call, start.covered):
        return await _asked_to_rerun(ctx, call, args)
    return Start(
        call=call,
        args=args,
        is_ordered=start.is_ordered,
        is_read_only=is_read_only(ctx.tools.required_capabilities(call.tool)),
        sandbox_mode=start.sandbox_mode,
        is_edited=_is_edited(call, args, args),
    )


async def _asked_to_rerun(
    ctx: TurnCtx, call: OpenCall, args: Arguments, *, supersedes: str | None = None
) -> Verdict:
    if ctx.options.unattended:
        return as_told(call, Settle(call=call, result="", outcome=""))
    return ask_to_rerun(ctx, await gate(ctx, call, args), args, supersedes=supersedes)


async def _asked_anew(
    ctx: TurnCtx,
    call: OpenCall,
    proposed: Arguments,
    *,
    decision: ApprovalDecision,
    reason: str | None = None,
) -> Verdict:
    superseded = decision.approval_id or None
    if call.is_started:
        return await _asked_to_rerun(ctx, call, proposed, supersedes=superseded)
    gated = await gate(ctx, call, proposed)
    return ask_anew(ctx, gated, proposed, superseded=superseded, reason=reason)


async def _refused(ctx: TurnCtx, call: OpenCall, args: Arguments) -> Settle | None:
    """Schema, ceiling and veto, in this order, right before an execution."""
    if problems := schema_problems(ctx, call, args):
        refused = texts.invalid_arguments(call.tool, problems)
        return Settle(call=call, result=refused, outcome="invalid_arguments")
    if excess := beyond_ceiling(ctx, ctx.tools.required_capabilities(call.tool)):
        return Settle(
            call=call,
            result=texts.outside_ceiling(call.tool, excess),
            outcome="outside_ceiling",
            facts=_rechecked(call, texts.ceiling_reason(call.tool, excess)),
        )
    if (reason := await veto(ctx, call, args)) is not None:
        return Settle(
            call=call,
            result=texts.denied_by_policy(reason),
            outcome="denied_by_policy",
            facts=_rechecked(call, reason),
        )
    return None


def _spec(ctx: TurnCtx, call: OpenCall) -> ToolSpec | None:
    """The tool as it is defined now, advertised or not."""
    return ctx.specs.get(call.tool) or ctx.tools.spec(call.tool)


def schema_problems(ctx: TurnCtx, call: OpenCall, args: Arguments) -> tuple[str, ...]:
    """What about the arguments does not fit the tool's schema."""
    spec = _spec(ctx, call)
    return () if spec is None else off_schema(spec, args.value)


def _is_redefined(ctx: TurnCtx, call: OpenCall, decision: ApprovalDecision) -> bool:
    """Whether the tool is no longer what the person was shown, so that nothing is authorised."""
    if decision.definition_digest is None:
        return False
    spec = _spec(ctx, call)
    return spec is None or spec.definition_digest != decision.definition_digest


def _grown(ctx: TurnCtx, call: OpenCall, covered: CapabilitySet) -> bool:
    """Whether the call needs more by policy and registration than was covered, taint aside."""
    required = ctx.tools.required_capabilities(call.tool)
    return not required - ctx.agent.grant_policy.granted(tainted=False) <= covered


def _denied(ctx: TurnCtx, call: OpenCall, args: Arguments, decision: ApprovalDecision) -> Settle:
    result = texts.EXPIRED if decision.expired else texts.DENIED
    ctx.denied_sigs[call.tool, args.canonical] = result
    outcome = "expired" if decision.expired else "denied"
    note = _note(decision)
    return as_told(call, Settle(call=call, result=result, outcome=outcome, note=note))


def _is_edited(call: OpenCall, args: Arguments, proposed: Arguments) -> bool:
    """Whether an approver changed the call, now or before a start whose outcome is unknown.

    What ran before, and is proposed again, may also be the rewrite of a dispatch rule.
    """
    before = call.start is not None and call.start.is_edited
    return args != call.args and (args != proposed or before)


def _note(decision: ApprovalDecision) -> str:
    return "" if decision.override is None else decision.override.injected_context


def as_told(call: OpenCall, refusal: Settle) -> Settle:
    """What is said of a refusal: of a started call never that it did not run."""
    if not call.is_started:
        return refusal
    return Settle(
        call=call,
        result=texts.outcome_unknown(call.tool),
        outcome="outcome_unknown",
        facts=refusal.facts,
    )


def _rechecked(call: OpenCall, reason: str) -> tuple[PolicyRechecked, ...]:
    return (PolicyRechecked(call_id=call.call_id, tool=call.tool, reason=reason),)


def _covered_by(decision: ApprovalDecision) -> CoveredBy | None:
    if not decision.approval_id:
        return None
    return CoveredBy(kind="decision", id=decision.approval_id)


def _resolved(call: OpenCall, covered_by: CoveredBy) -> tuple[ApprovalResolved, ...]:
    """The end of the open request, which a session approval has answered."""
    if call.logged is None or call.logged.approval_id is None:
        return ()
    return (
        ApprovalResolved(
            approval_id=call.logged.approval_id,
            call_id=call.call_id,
            status="approved",
            by="session",
            covered_by=covered_by,
        ),
    )
