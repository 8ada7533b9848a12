"""The rules of an agent's document as the tools take them (service.md 3)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.policy.consent import Consent, ConsentRules
from app.policy.dispatch import (
    AskFirst,
    CallRule,
    CallRules,
    Condition,
    DenyCall,
    InjectText,
    ResultRule,
    RewriteCall,
)

if TYPE_CHECKING:
    from app.policy.dispatch import CallAction
    from app.service.agents.spec import AgentSpec, DispatchRule


def call_rules(snapshot: AgentSpec, present: AgentSpec) -> CallRules:
    """What binds a run: the rules of its snapshot, and what the present agent is stricter in."""
    before, after = _dispatch(snapshot)
    unchanged = present.dispatch_rules == snapshot.dispatch_rules
    return CallRules(
        consent=(_consent(snapshot), _consent(present)),
        before=before,
        after=after,
        present=() if unchanged else _dispatch(present)[0],
        trusts_uploads=all(spec.attachments_policy.uploads_trusted for spec in (snapshot, present)),
    )


def _consent(spec: AgentSpec) -> ConsentRules:
    return ConsentRules({pattern: Consent(rule) for pattern, rule in spec.approval.items()})


def _dispatch(spec: AgentSpec) -> tuple[tuple[CallRule, ...], tuple[ResultRule, ...]]:
    before: list[CallRule] = []
    after: list[ResultRule] = []
    for at, rule in enumerate(spec.dispatch_rules):
        name = f"dispatch_rules/{at}"
        if (action := _action(rule)) is None:
            after.append(ResultRule(name, rule.tool, rule.pattern or "", rule.text or ""))
        else:
            before.append(CallRule(name, rule.tool, action, _condition(rule)))
    return tuple(before), tuple(after)


def _action(rule: DispatchRule) -> CallAction | None:
    """What the rule does with a call; None for one about results."""
    match rule.action:
        case "deny":
            return DenyCall()
        case "ask":
            return AskFirst()
        case "rewrite":
            return RewriteCall(rule.set or {})
        case "inject":
            return InjectText(rule.text or "")
        case "redact":
            return None


def _condition(rule: DispatchRule) -> Condition | None:
    return None if rule.when is None else Condition(rule.when.pointer, rule.when.pattern)
