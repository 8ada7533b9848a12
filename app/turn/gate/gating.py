"""The way to `decide()`: what the agent and the tool say of one call, and the gate's verdict on it.

There is no second path around the gate. Standing consents come in here: a remembered grant acts
inside `decide()` by lifting the taint, a session approval after the gate has asked (turn.md 6.8).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, assert_never

from app.log.calls import CallGated
from app.log.payload import CoveredBy
from app.policy.capability import Capability, in_order
from app.policy.gate import Allow, CallPolicy, Deny, Escalate, InjectContext, Modify, decide
from app.policy.grants import serving_grant
from app.turn.attempt import Raised, attempt
from app.turn.ports import (
    DispatchDeny,
    DispatchInjectContext,
    DispatchModify,
    DispatchRequireApproval,
)
from app.turn.result import GrantReplayClear

if TYPE_CHECKING:
    from pydantic import JsonValue

    from app.engine.json.arguments import Arguments
    from app.log.calls import GateRule
    from app.policy.capability import CapabilitySet
    from app.policy.gate import GateOutcome, Transform
    from app.policy.grants import RememberedGrant
    from app.turn.ports import ToolDecision
    from app.turn.state.call import OpenCall
    from app.turn.state.context import TurnCtx

Mutation = DispatchModify | DispatchInjectContext

READ_ONLY: Final = frozenset({Capability.LOCAL_READ, Capability.FIXED_CONNECTOR_READ})
_UNDECIDABLE: Final = "The rules for this call could not be evaluated."


@dataclass(frozen=True, slots=True, kw_only=True)
class Gated:
    """The gate's verdict on one call, and what it rests on.

    `requires_human`: the consent rule asks, whatever is missing. `replay`: a remembered grant
    changed the verdict. `mutation`: what policy does to the call before it runs, with the name of
    its rule.
    """

    call: OpenCall
    outcome: GateOutcome
    rule: GateRule
    required: CapabilitySet
    missing: CapabilitySet
    requires_human: bool
    sandbox_escalation: bool
    replay: GrantReplayClear | None
    mutation: Mutation | None

    def fact(self, covered_by: CoveredBy | None = None) -> CallGated:
        """The verdict as the log has it."""
        reason = self.outcome.reason if isinstance(self.outcome, Deny | Escalate) else ""
        if covered_by is None and self.replay is not None:
            covered_by = CoveredBy(kind="grant", id=self.replay.grant_ref)
        return CallGated(
            call_id=self.call.call_id,
            tool=self.call.tool,
            outcome=self.outcome.label,
            rule=self.rule,
            missing=in_order(self.missing),
            reason=reason,
            covered_by=covered_by,
        )


def is_read_only(required: CapabilitySet) -> bool:
    """Whether a call with these needs may run while a person decides on a sibling."""
    return required <= READ_ONLY


def beyond_ceiling(ctx: TurnCtx, required: CapabilitySet) -> CapabilitySet:
    """What the call needs and the agent may never use."""
    return required - ctx.agent.execution_ceiling


def ceiling_fact(call: OpenCall, reason: str) -> CallGated:
    """A refusal by the ceiling as the log has it."""
    return CallGated(
        call_id=call.call_id, tool=call.tool, outcome="deny", rule="ceiling", reason=reason
    )


async def gate(ctx: TurnCtx, call: OpenCall, args: Arguments) -> Gated:
    """Put one call to `decide()`, under the taint that holds now."""
    required = ctx.tools.required_capabilities(call.tool)
    policy, mutation = await _call_policy(ctx, call, args)
    grant = _grant(ctx, call.tool, _to_run(args, mutation), required=required)
    granted = _granted_under(ctx, grant)
    outcome = decide(required, granted, call_policy=policy, tool_name=call.tool)
    cleared = (required - ctx.granted) & granted
    # A call that starts by a grant has it looked up at its start; one that asks has it here.
    if grant and cleared and isinstance(outcome, Escalate) and await has_ended(ctx, grant):
        return await gate(ctx, call, args)
    return Gated(
        call=call,
        outcome=outcome,
        rule=_rule(outcome, policy),
        required=required,
        missing=required - granted,
        requires_human=policy.requires_human,
        sandbox_escalation=policy.sandbox_escalation,
        replay=_replay(call, outcome, grant, cleared=cleared),
        mutation=mutation if isinstance(outcome, Modify | InjectContext) else None,
    )


async def veto(ctx: TurnCtx, call: OpenCall, args: Arguments) -> str | None:
    """The reason why nobody may let the call run, by dispatch policy."""
    match await _pre_dispatch(ctx, call, args):
        case DispatchDeny(reason=reason):
            return reason
        case _:
            return None


async def _call_policy(
    ctx: TurnCtx, call: OpenCall, args: Arguments
) -> tuple[CallPolicy, Mutation | None]:
    decision = await _pre_dispatch(ctx, call, args)
    mutation = _mutation(ctx, decision)
    policy = CallPolicy(
        veto=decision.reason if isinstance(decision, DispatchDeny) else None,
        requires_human=isinstance(decision, DispatchRequireApproval)
        or ctx.tools.needs_approval(call.tool),
        sandbox_escalation=await _escapes_sandbox(ctx, call, args),
        transform=_transform(mutation),
    )
    return policy, mutation


async def _pre_dispatch(ctx: TurnCtx, call: OpenCall, args: Arguments) -> ToolDecision:
    """What the dispatch policy says; one that breaks refuses."""
    match await attempt(
        ctx.tools.pre_dispatch(call.tool, args.value), doing="pre_dispatch", call_id=call.call_id
    ):
        case Raised():
            return DispatchDeny(_UNDECIDABLE)
        case decision:
            return decision


def _mutation(ctx: TurnCtx, decision: ToolDecision) -> Mutation | None:
    """What policy does to the call; without a recorder no mutation happens (turn.md 7.7)."""
    if ctx.options.dispatch_recorder is None:
        return None
    return decision if isinstance(decision, DispatchModify | DispatchInjectContext) else None


def _transform(mutation: Mutation | None) -> Transform | None:
    match mutation:
        case DispatchModify(args=args):
            return Modify(args)
        case DispatchInjectContext(text=text):
            return InjectContext(text)
        case None:
            return None
        case _:
            assert_never(mutation)


async def _escapes_sandbox(ctx: TurnCtx, call: OpenCall, args: Arguments) -> bool:
    if not ctx.options.escalate_sandbox_denials:
        return False
    asked = ctx.tools.sandbox_would_deny(call.tool, args.value)
    match await attempt(asked, doing="sandbox_would_deny", call_id=call.call_id):
        case Raised():
            return True
        case denied:
            return denied


def _to_run(args: Arguments, mutation: Mutation | None) -> dict[str, JsonValue]:
    """What constraints are held against: the arguments that are to run, rewritten ones included."""
    return dict(mutation.args) if isinstance(mutation, DispatchModify) else args.value


def _grant(
    ctx: TurnCtx, tool: str, args: dict[str, JsonValue], *, required: CapabilitySet
) -> RememberedGrant | None:
    grants = ctx.remembered_grants(tool)
    if not grants:
        return None
    return serving_grant(grants, args, required=required, now_ms=ctx.clock.now_ms())


def _granted_under(ctx: TurnCtx, grant: RememberedGrant | None) -> CapabilitySet:
    if grant is None:
        return ctx.granted
    return ctx.agent.grant_policy.with_resilient(grant.covered).granted(ctx.tainted)


def _replay(
    call: OpenCall,
    outcome: GateOutcome,
    grant: RememberedGrant | None,
    *,
    cleared: CapabilitySet,
) -> GrantReplayClear | None:
    """The use of a grant that changed the verdict: the call runs, and without it would not."""
    if grant is None or not cleared or isinstance(outcome, Deny | Escalate):
        return None
    return GrantReplayClear(
        call.call_id, call.tool, grant.grant_ref, grant.coverage_hash, in_order(cleared)
    )


async def has_ended(ctx: TurnCtx, grant: RememberedGrant | GrantReplayClear) -> bool:
    """Whether a grant that was read when the turn began serves no more; it is remembered if so.

    A turn may last long after its grants were read: what is taken back meanwhile counts, and so
    does the end of a grant's time. A register that cannot answer ends the turn, not the rule.
    """
    register = ctx.options.grant_register
    if register is None or await register.is_live(grant.grant_ref):
        return False
    ctx.ended_grants.add(grant.grant_ref)
    return True


def _rule(outcome: GateOutcome, policy: CallPolicy) -> GateRule:
    match outcome:
        case Deny():
            return "veto"
        case Escalate(missing=missing) if missing:
            return "capabilities"
        case Escalate():
            return "consent" if policy.requires_human else "sandbox"
        case Modify() | InjectContext():
            return "transform"
        case Allow():
            return "none"
        case _:
            assert_never(outcome)
