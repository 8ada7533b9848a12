"""`__delegate_to`: what is offered, whom a call means, and how many may begin (turn.md 7.1).

Delegating asks nobody by itself; every call of the worker passes the gate. The work itself is
`worker`'s.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from app.engine.json.arguments import canonical_bytes, sha256_hex
from app.turn import texts
from app.turn.gate.decided import schema_problems
from app.turn.gate.verdict import Delegation, Settle
from app.turn.limits import (
    DELEGATE_BUDGET,
    DELEGATE_BUDGET_LIMIT,
    DELEGATE_FANOUT,
    DELEGATE_FANOUT_LIMIT,
)
from app.turn.ports import ToolSpec

if TYPE_CHECKING:
    from collections.abc import Sequence

    from app.engine.json.arguments import Arguments
    from app.log.payload import JsonObject
    from app.turn.gate.verdict import Verdict
    from app.turn.options import DelegateDescriptor, RunTurnOptions
    from app.turn.state.call import OpenCall
    from app.turn.state.context import TurnCtx

_TITLE: Final = "Delegate a task"


def delegate_spec(options: RunTurnOptions) -> ToolSpec | None:
    """The tool by which this turn may delegate; None if it may not."""
    if options.is_delegated_worker or not options.delegate_descriptors:
        return None
    known = [_trailing(one.agent_id) for one in options.delegate_descriptors]
    description = (
        "Give a task to another agent, which works on it alone and sees nothing of this"
        f" conversation; its answer is the result. The agents: {', '.join(known)}."
    )
    parameters: JsonObject = {
        "type": "object",
        "properties": {
            "target_agent_id": {"type": "string", "description": "The agent that is to work."},
            "task": {"type": "string", "minLength": 1, "description": "What it is to do."},
            "context": {"type": "string", "description": "What it must know for that."},
        },
        "required": ["target_agent_id", "task"],
        "additionalProperties": False,
    }
    definition = canonical_bytes(
        {"name": texts.DELEGATE_TO, "description": description, "parameters": parameters}
    )
    return ToolSpec(
        name=texts.DELEGATE_TO,
        description=description,
        parameters=parameters,
        title=_TITLE,
        definition_digest=sha256_hex(definition),
    )


def delegate(ctx: TurnCtx, call: OpenCall, args: Arguments) -> Delegation | Settle:
    """Row 4 of the table, but for the caps, which are a matter of the whole batch."""
    if problems := schema_problems(ctx, call, args):
        refused = texts.invalid_arguments(call.tool, problems)
        return Settle(call=call, result=refused, outcome="invalid_arguments")
    target, context = str(args.value["target_agent_id"]), args.value.get("context")
    found = _named(ctx.options.delegate_descriptors, target)
    if len(found) != 1:
        known = [one.agent_id for one in ctx.options.delegate_descriptors]
        refused = texts.unknown_delegate_target(target, known)
        return Settle(call=call, result=refused, outcome="unknown_delegate_target")
    return Delegation(
        call=call,
        args=args,
        descriptor=found[0],
        task=str(args.value["task"]),
        context=None if context is None else str(context),
        stored=ctx.transcript.workers.get(call.call_id),
    )


def within_caps(ctx: TurnCtx, verdicts: Sequence[Verdict]) -> list[Verdict]:
    """The batch with every delegation refused that is over the fan-out or over the budget.

    In source order. A worker that goes on takes a place in its batch and is counted no second time.
    """
    options = ctx.options
    fanout = _limit(options.delegate_max_fanout, DELEGATE_FANOUT, DELEGATE_FANOUT_LIMIT)
    budget = _limit(options.delegate_turn_budget, DELEGATE_BUDGET, DELEGATE_BUDGET_LIMIT)
    begun = sum(isinstance(one, Delegation) and one.stored is not None for one in verdicts)
    if any(one.call.is_dangling for one in verdicts):
        begun += ctx.transcript.delegated_in_batch
    used = ctx.delegations_used
    kept: list[Verdict] = []
    for verdict in verdicts:
        if not isinstance(verdict, Delegation) or verdict.stored is not None:
            kept.append(verdict)
        elif begun >= fanout:
            refused = texts.delegate_fanout_exceeded(fanout)
            kept.append(_over(verdict, refused, "delegate_fanout_exceeded"))
        elif used >= budget:
            refused = texts.delegate_budget_exceeded(budget)
            kept.append(_over(verdict, refused, "delegate_budget_exceeded"))
        else:
            begun, used = begun + 1, used + 1
            kept.append(verdict)
    return kept


def _over(verdict: Delegation, refused: str, outcome: str) -> Settle:
    return Settle(call=verdict.call, result=refused, outcome=outcome)


def _limit(asked: int | None, default: int, most: int) -> int:
    return default if asked is None else max(0, min(asked, most))


def _named(descriptors: Sequence[DelegateDescriptor], target: str) -> list[DelegateDescriptor]:
    """The workers that go by the trailing part of the target's resource name."""
    name = _trailing(target)
    return [one for one in descriptors if name and _trailing(one.agent_id) == name]


def _trailing(resource: str) -> str:
    return resource.rpartition("/")[2]
