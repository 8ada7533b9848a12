"""Offers of grants on cards: where somebody is asked what they have approved the like of (F121).

A grant is offered where it would have helped: made, by its typed constraints, of a call that was
approved in the conversation before, it would have let the call at hand run unasked. So no untrusted
content shapes an offer beyond what a person has agreed to. An offer carries no authority; whoever
takes it signs what it says with a passkey, and the rules for grants are checked then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import orjson

from app.log.approvals import GrantOffer
from app.policy.capability import TAINT_REVOKED
from app.policy.constraints import all_met
from app.policy.suggestions import suggested
from app.service.grants.rules import constraint_faults
from app.trust.grant import GrantConstraint

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pydantic import JsonValue

    from app.log.records import ApprovalRecord, RunRecord
    from app.policy.capability import CapabilitySet
    from app.policy.constraints import Constraint
    from app.turn.result import PendingApproval

OFFERED_S: Final = 86_400
# Of what was approved before, so many are looked at, the newest first; a longer text is not read.
REMEMBERED: Final = 20
READ_CHARS: Final = 64 * 1024


def offer(
    call: PendingApproval,
    approved: Iterable[ApprovalRecord],
    *,
    run: RunRecord,
    base: CapabilitySet,
) -> GrantOffer | None:
    """The grant that would have spared this question; `approved` are earlier calls, newest first.

    `base` is what the agent is granted on a clean context.
    """
    if not _would_help(call, base):
        return None
    args = orjson.loads(call.args_json)
    for before in approved:
        if _is_like(before, call, run):
            constraints = suggested(_ran_with(before))
            if constraints and all_met(constraints, args):
                return _offered(call, run, constraints)
    return None


def _would_help(call: PendingApproval, base: CapabilitySet) -> bool:
    """Whether it is taint alone that asks: a grant lifts that, from no worker, and nothing else."""
    revoked = call.required & TAINT_REVOKED
    return (
        bool(call.missing)
        and call.missing <= revoked <= base
        and call.worker is None
        and not (call.requires_human or call.sandbox_escalation or call.outcome_unknown)
    )


def _is_like(before: ApprovalRecord, call: PendingApproval, run: RunRecord) -> bool:
    card = before.card
    return (
        before.status == "approved"
        and before.principal == run.principal
        and card["worker"] is None
        and (card["agent"], card["tool"]) == (run.agent, call.tool_name)
        and card["tool_definition_digest"] == call.definition_digest
    )


def _ran_with(before: ApprovalRecord) -> dict[str, JsonValue]:
    """The arguments that were approved: an edit is what its approver meant."""
    text: str = before.effective_args or before.card["args_canonical"]
    args: dict[str, JsonValue] = orjson.loads(text) if len(text) <= READ_CHARS else {}
    return args


def _offered(
    call: PendingApproval, run: RunRecord, constraints: tuple[Constraint, ...]
) -> GrantOffer | None:
    if any(constraint_faults(constraints)):
        return None
    return GrantOffer(
        agent=run.agent,
        tool=call.tool_name,
        capabilities=tuple(sorted(call.required & TAINT_REVOKED)),
        constraints=tuple(
            GrantConstraint(pointer=each.pointer, op=each.op, value=each.value)
            for each in constraints
        ),
        expires_in_s=OFFERED_S,
    )
