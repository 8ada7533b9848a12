"""Dispatch rules around an executor: which one decides, and that what cannot be told is refused."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from typing_extensions import override

from app.engine.json.patterns import PatternGivenUp
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
from app.tools.executors.dispatch_rules import RuledExecutor
from app.turn.ports import (
    DispatchAllow,
    DispatchDeny,
    DispatchInjectContext,
    DispatchModify,
    DispatchRedact,
    DispatchRequireApproval,
    ToolDecision,
    WorkerScope,
)
from tests.support.turn.tools import MemoryTool, MemoryTools

DENIED = DispatchDeny("r: the agent's rules do not allow this call")
EVIL = Condition("/url", "evil")
ARGS: dict[str, Any] = {"url": "https://evil.example/", "n": 7, "list": [{"a": 1}]}


def ruled(
    *before: CallRule,
    present: tuple[CallRule, ...] = (),
    after: tuple[ResultRule, ...] = (),
    inner: ToolDecision | None = None,
) -> RuledExecutor:
    tool = MemoryTool("crm__send", decision=inner or DispatchAllow())
    rules = CallRules(before=before, after=after, present=present)
    servers = {"crm__send": "crm"}
    return RuledExecutor(MemoryTools(tool), rules, server_of=servers.get)


def rule(action: Any, when: Condition | None = None, *, tool: str = "*") -> CallRule:
    return CallRule("r", tool, action, when)


async def decision(executor: RuledExecutor, args: dict[str, Any] = ARGS) -> ToolDecision:
    return await executor.pre_dispatch("crm__send", args)


@dataclass(frozen=True)
class Case:
    id: str
    before: tuple[CallRule, ...]
    expected: ToolDecision


REWRITE = RewriteCall({"/url": "https://good.example/", "/new": None})
CASES = [
    Case("no rule", (), DispatchAllow()),
    Case("a denial", (rule(DenyCall()),), DENIED),
    Case("a denial that holds", (rule(DenyCall(), EVIL),), DENIED),
    Case("one that does not", (rule(DenyCall(), Condition("/url", "good")),), DispatchAllow()),
    Case("a value that is not there", (rule(DenyCall(), Condition("/x", "")),), DispatchAllow()),
    Case("no text", (rule(DenyCall(), Condition("/n", "^7$")),), DENIED),
    Case("a whole", (rule(DenyCall(), Condition("", '"n":7')),), DENIED),
    Case("deeper", (rule(DenyCall(), Condition("/list/0/a", "1")),), DENIED),
    Case("a question", (rule(AskFirst(), EVIL),), DispatchRequireApproval()),
    Case("an injection", (rule(InjectText("beware")),), DispatchInjectContext("beware", "r")),
    Case(
        "a rewrite",
        (rule(REWRITE),),
        DispatchModify(ARGS | {"url": "https://good.example/", "new": None}, "r"),
    ),
    Case(
        "the first that matches",
        (rule(AskFirst(), EVIL), rule(DenyCall())),
        DispatchRequireApproval(),
    ),
    Case(
        "the next one otherwise", (rule(AskFirst(), Condition("/x", "")), rule(DenyCall())), DENIED
    ),
    Case("of another tool", (rule(DenyCall(), tool="crm"),), DispatchAllow()),
    Case("of its server", (rule(DenyCall(), tool="crm:*"),), DENIED),
    Case("of a server like it", (rule(DenyCall(), tool="cr:*"),), DispatchAllow()),
    Case("by its name", (rule(DenyCall(), tool="crm__send"),), DENIED),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
async def test_the_first_rule_that_matches_decides(case: Case) -> None:
    assert await decision(ruled(*case.before)) == case.expected


@pytest.mark.parametrize(
    "values",
    [{"/url/deeper": 1}, {"/a/b": 1}, {"/list/7": 1}, {"/list/-": 1}, {"/a~2": 1}, {"": []}],
    ids=str,
)
async def test_a_rewrite_that_does_not_fit_denies_the_call(values: dict[str, Any]) -> None:
    denied = await decision(ruled(rule(RewriteCall(values))))
    assert isinstance(denied, DispatchDeny)
    assert denied.reason.startswith("r: the rewrite ")


async def test_a_rewrite_changes_a_copy() -> None:
    args = {"list": [{"a": 1}]}
    modified = await decision(ruled(rule(RewriteCall({"/list/0/a": 2}))), args)
    assert modified == DispatchModify({"list": [{"a": 2}]}, "r")
    assert args == {"list": [{"a": 1}]}


@pytest.mark.parametrize("action", [DenyCall(), AskFirst(), REWRITE, InjectText("t")], ids=str)
async def test_a_pattern_that_takes_too_long_denies_whatever_its_rule_would_do(action: Any) -> None:
    slow = rule(action, Condition("/url", "(a+)+$"))
    denied = await decision(ruled(slow), {"url": "a" * 5000 + "!"})
    assert denied == DispatchDeny("r: the pattern took too long")


async def test_t115_what_the_tools_within_deny_stays_denied() -> None:
    """T115: a composed executor may not turn a denial into a question or a rewrite."""
    for action in (AskFirst(), REWRITE, InjectText("t")):
        inner = DispatchDeny("by consent")
        assert await decision(ruled(rule(action), inner=inner)) == inner


async def test_a_question_of_the_tools_within_stands_where_no_rule_matches() -> None:
    inner = DispatchRequireApproval()
    assert await decision(ruled(rule(DenyCall(), Condition("/x", "")), inner=inner)) == inner


async def test_of_the_present_agent_only_denials_count() -> None:
    assert await decision(ruled(present=(rule(DenyCall(), EVIL),))) == DENIED
    for action in (AskFirst(), REWRITE, InjectText("t")):
        assert await decision(ruled(present=(rule(action),))) == DispatchAllow()
    # Its own order holds: what another rule of it takes first, it would not deny.
    assert await decision(ruled(present=(rule(AskFirst()), rule(DenyCall())))) == DispatchAllow()
    assert await decision(ruled(rule(DenyCall()), present=(rule(AskFirst()),))) == DENIED


async def test_a_rewrite_into_what_the_present_agent_denies_is_denied() -> None:
    good = {"url": "https://good.example/"}
    worse = rule(RewriteCall({"/url": "https://evil.example/"}))
    assert await decision(ruled(worse, present=(rule(DenyCall(), EVIL),)), good) == DENIED
    # Taken away by the rewrite, the reason was one all the same.
    assert await decision(ruled(rule(REWRITE), present=(rule(DenyCall(), EVIL),))) == DENIED


async def test_the_first_redaction_that_finds_something_is_applied() -> None:
    after = (
        ResultRule("r0", "crm:*", "zz+", "[z]"),
        ResultRule("r1", "*", "sk-[a-z]+", "[key]"),
        ResultRule("r2", "*", "a", "[a]"),
        ResultRule("r3", "other", "s", "[s]"),
    )
    executor = ruled(after=after)
    assert await executor.post_dispatch("crm__send", {}, "sk-a b") == DispatchRedact(
        "[key] b", "r1"
    )
    assert await executor.post_dispatch("crm__send", {}, "b") is None


async def test_a_redaction_that_takes_too_long_raises_so_that_the_result_is_withheld() -> None:
    executor = ruled(after=(ResultRule("r", "*", "(a+)+$", ""),))
    with pytest.raises(PatternGivenUp):
        await executor.post_dispatch("crm__send", {}, "a" * 5000 + "!")


async def test_a_redaction_sees_what_the_tools_within_leave() -> None:
    tool = MemoryTool("t", replacement=DispatchRedact("still sk-a", "inner"))
    rules = CallRules(after=(ResultRule("r", "*", "sk-a", "[key]"),))
    executor = RuledExecutor(MemoryTools(tool), rules, server_of=lambda _: None)
    assert await executor.post_dispatch("t", {}, "sk-a") == DispatchRedact("still [key]", "r")


async def test_a_worker_is_under_the_same_rules() -> None:
    class Sharing(MemoryTools):
        @override
        def for_worker(self, scope: WorkerScope) -> Any:
            return self

    rules = CallRules(before=(rule(DenyCall()),))
    executor = RuledExecutor(Sharing(MemoryTool("t")), rules, server_of=lambda _: None)
    worker = executor.for_worker(WorkerScope("run_1", "call_1", ("t",)))
    assert await worker.pre_dispatch("t", {}) == DENIED
