"""An agent's dispatch rules around its tools (service.md 3, turn.md 7.7).

The first rule that matches decides, once before a call and once after it. Whatever cannot be
evaluated fails closed: a call is denied, a result withheld. Patterns run beside the event loop.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, TypeVar, assert_never

from typing_extensions import override

from app.engine.json.arguments import canonical_bytes
from app.engine.json.patterns import PatternGivenUp, occurs
from app.engine.json.pointer import value_at, with_value_at
from app.policy.dispatch import AskFirst, DenyCall, InjectText, RewriteCall
from app.tools.executors.forwarding import ForwardingExecutor
from app.tools.executors.patterns import with_replaced
from app.turn.ports import (
    DispatchDeny,
    DispatchInjectContext,
    DispatchModify,
    DispatchRedact,
    DispatchRequireApproval,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pydantic import JsonValue

    from app.policy.dispatch import CallRule, CallRules, Condition, ResultRule
    from app.turn.ports import ToolDecision, ToolExecutor, WorkerScope

R = TypeVar("R", "CallRule", "ResultRule")


class RuledExecutor(ForwardingExecutor):
    """`inner` under dispatch rules. `server_of` names the MCP server of a tool."""

    def __init__(
        self,
        inner: ToolExecutor,
        rules: CallRules,
        *,
        server_of: Callable[[str], str | None],
    ) -> None:
        super().__init__(inner)
        self._rules = rules
        self._server_of = server_of

    @override
    async def pre_dispatch(self, name: str, args: Mapping[str, Any]) -> ToolDecision:
        """The strictest of what the tools within say, the run's rules, and present denials."""
        decision = await super().pre_dispatch(name, args)
        if isinstance(decision, DispatchDeny):
            return decision
        if (denied := await self._present_denial(name, args)) is not None:
            return denied
        decided = await _decided(self._about(self._rules.before, name), args) or decision
        if isinstance(decided, DispatchModify):
            # What would run in its place may be what the agent no longer allows.
            return await self._present_denial(name, decided.args) or decided
        return decided

    @override
    async def post_dispatch(
        self, name: str, args: Mapping[str, Any], result: str
    ) -> DispatchRedact | None:
        """The result as the first rule whose pattern occurs leaves it. Raises PatternGivenUp."""
        inner = await super().post_dispatch(name, args, result)
        rules = self._about(self._rules.after, name)
        if not rules:
            return inner
        seen = result if inner is None else inner.text
        return await asyncio.to_thread(_first_redaction, rules, seen) or inner

    @override
    def for_worker(self, scope: WorkerScope) -> RuledExecutor:
        """The worker's executor, under the same rules."""
        inner = super().for_worker(scope)
        return RuledExecutor(inner, self._rules, server_of=self._server_of)

    async def _present_denial(self, name: str, args: Mapping[str, Any]) -> DispatchDeny | None:
        denied = await _decided(self._about(self._rules.present, name), args)
        return denied if isinstance(denied, DispatchDeny) else None

    def _about(self, rules: Sequence[R], name: str) -> list[R]:
        server = self._server_of(name)
        return [rule for rule in rules if rule.covers(name, server)]


async def _decided(rules: Sequence[CallRule], args: Mapping[str, Any]) -> ToolDecision | None:
    if all(rule.when is None for rule in rules):
        return _first_decision(rules, args)
    return await asyncio.to_thread(_first_decision, rules, args)


def _first_decision(rules: Sequence[CallRule], args: Mapping[str, Any]) -> ToolDecision | None:
    """What the first rule that matches makes of a call with these arguments."""
    for rule in rules:
        try:
            matches = rule.when is None or _holds(rule.when, args)
        except PatternGivenUp:
            return DispatchDeny(f"{rule.name}: the pattern took too long")
        if matches:
            return _decision(rule, args)
    return None


def _first_redaction(rules: Sequence[ResultRule], result: str) -> DispatchRedact | None:
    """The result without what the first of these rules finds in it. Raises PatternGivenUp."""
    for rule in rules:
        redacted = with_replaced(rule.pattern, result, rule.text)
        if redacted is not None:
            return DispatchRedact(redacted, rule.name)
    return None


def _holds(when: Condition, args: Mapping[str, Any]) -> bool:
    try:
        value = value_at(dict(args), when.pointer)
    except LookupError:
        return False
    text = value if isinstance(value, str) else canonical_bytes(value).decode()
    return occurs(when.pattern, text)


def _decision(rule: CallRule, args: Mapping[str, Any]) -> ToolDecision:
    match rule.action:
        case DenyCall():
            return DispatchDeny(f"{rule.name}: the agent's rules do not allow this call")
        case AskFirst():
            return DispatchRequireApproval()
        case RewriteCall(values):
            return _rewritten(rule, values, args)
        case InjectText(text):
            return DispatchInjectContext(text, rule.name)
        case _:
            assert_never(rule.action)


def _rewritten(rule: CallRule, values: Mapping[str, Any], args: Mapping[str, Any]) -> ToolDecision:
    value: JsonValue = dict(args)
    try:
        for pointer, new in values.items():
            value = with_value_at(value, pointer, new)
    except (LookupError, ValueError):
        return DispatchDeny(f"{rule.name}: the rewrite does not fit these arguments")
    if not isinstance(value, dict):
        return DispatchDeny(f"{rule.name}: the rewrite leaves no arguments")
    return DispatchModify(value, rule.name)
