"""The form of a question to a person, and of its refusal where nobody is present."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from app.log.calls import CallDeniedUnattended
from app.policy.capability import in_order
from app.policy.gate import Escalate
from app.turn import texts
from app.turn.gate.verdict import Ask, Settle
from app.turn.result import PendingApproval, UnattendedDenial

if TYPE_CHECKING:
    from app.engine.json.arguments import Arguments
    from app.turn.gate.gating import Gated
    from app.turn.state.context import TurnCtx


def ask(ctx: TurnCtx, gated: Gated, args: Arguments) -> Ask | Settle:
    """Ask a person about a call the gate has escalated; where nobody is present, refuse it."""
    if ctx.options.unattended:
        return _refuse_unattended(gated, args)
    return Ask(call=gated.call, approval=_approval_of(ctx, gated, args), facts=(gated.fact(),))


def ask_anew(
    ctx: TurnCtx, gated: Gated, args: Arguments, *, superseded: str | None, reason: str | None
) -> Ask | Settle:
    """Ask again about an approved call that is not, by now, what its decision was about."""
    if ctx.options.unattended:
        return _refuse_unattended(gated, args)
    approval = _approval_of(ctx, gated, args, reason=reason, supersedes=superseded)
    return Ask(call=gated.call, approval=approval, facts=(gated.fact(),), is_fresh=False)


def still_asked(ctx: TurnCtx, gated: Gated, args: Arguments) -> Ask:
    """The request that is open already stays open; nothing new goes into the log."""
    return Ask(call=gated.call, approval=_approval_of(ctx, gated, args), is_fresh=False)


def ask_to_rerun(
    ctx: TurnCtx, gated: Gated, args: Arguments, *, supersedes: str | None = None
) -> Ask:
    """Ask whether a call whose outcome is unknown is to run again."""
    approval = _approval_of(
        ctx, gated, args, reason=texts.rerun_reason(gated.call.tool), supersedes=supersedes
    )
    unknown = replace(approval, outcome_unknown=True)
    return Ask(call=gated.call, approval=unknown, is_fresh=False)


def _approval_of(
    ctx: TurnCtx,
    gated: Gated,
    args: Arguments,
    *,
    reason: str | None = None,
    supersedes: str | None = None,
) -> PendingApproval:
    """The card: the title is the pinned spec's, the raw name the one to trust.

    Without a `reason` of its own the card gives the gate's.
    """
    call, spec = gated.call, ctx.specs.get(gated.call.tool)
    known = spec or ctx.tools.spec(call.tool)
    if reason is None:
        reason = gated.outcome.reason if isinstance(gated.outcome, Escalate) else ""
    return PendingApproval(
        request_id=call.request_id,
        call_id=call.call_id,
        tool_name=call.tool,
        title=spec.title if spec else call.tool,
        args_json=args.canonical.decode(),
        reason=reason,
        required=gated.required,
        missing=gated.missing,
        definition_digest=known.definition_digest if known else "",
        occurrence_turn_id=call.turn_id if call.is_dangling else None,
        requires_human=gated.requires_human,
        sandbox_escalation=gated.sandbox_escalation,
        supersedes=supersedes,
    )


def _refuse_unattended(gated: Gated, args: Arguments) -> Settle:
    call, missing = gated.call, in_order(gated.missing)
    reason = gated.outcome.reason if isinstance(gated.outcome, Escalate) else ""
    return Settle(
        call=call,
        result=texts.unattended_denied(call.tool, gated.missing),
        outcome="unattended_denied",
        unattended=UnattendedDenial(call.tool, args.canonical.decode(), reason, missing),
        facts=(
            gated.fact(),
            CallDeniedUnattended(
                call_id=call.call_id,
                tool=call.tool,
                args_sha256=args.sha256,
                reason=reason,
                missing=missing,
            ),
        ),
    )
