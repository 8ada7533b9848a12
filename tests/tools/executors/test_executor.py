"""The executor of one agent: scope, consent, the sandbox's answer, time, and every port method."""

from __future__ import annotations

import asyncio
import inspect
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pytest

from app.policy.capability import ALL_CAPABILITIES, Capability
from app.policy.consent import Consent, ConsentRules
from app.tools.builtin import builtin_tools
from app.tools.builtin.files_read import FILES_READ
from app.tools.executors.executor import NoWorkerWorkspace, ScopedExecutor
from app.tools.http import OutboundHttp
from app.tools.outcomes import answered
from app.tools.registry import ToolRegistry
from app.tools.sandbox.workspace import ConversationWorkspace
from app.turn.ports import (
    DispatchAllow,
    DispatchDeny,
    DispatchRequireApproval,
    ToolExecutor,
    WorkerScope,
)
from tests.support.clock import settle
from tests.tools.played import FilesInMemory, FixedClock, invocation, result_of

if TYPE_CHECKING:
    from app.tools.ports import Workspace
    from app.tools.registry import RegisteredTool
    from app.turn.ports import ToolInvocation, ToolOutcome

CLOCK = FixedClock()
REGISTRY = ToolRegistry(
    [
        *builtin_tools(CLOCK, OutboundHttp()),
        replace(FILES_READ, name="git__log", server="git"),
        replace(FILES_READ, name="github__log", server="github", consent=Consent.ASK),
        replace(FILES_READ, name="broken", why_not="bubblewrap is missing"),
    ]
)
EVERYTHING = [tool.name for tool in REGISTRY.all()]


def executor(
    *entries: str,
    rules: list[dict[str, str]] | None = None,
    files: FilesInMemory | None = None,
    registry: ToolRegistry = REGISTRY,
    limit_s: float = 60.0,
) -> ScopedExecutor:
    return ScopedExecutor(
        registry,
        entries or EVERYTHING,
        consent=[
            ConsentRules({pattern: Consent(rule) for pattern, rule in each.items()})
            for each in (rules if rules is not None else [{}])
        ],
        workspace=ConversationWorkspace(files or FilesInMemory(), "conv_1", clock=CLOCK),
        call_limit_s=limit_s,
    )


def test_t116_the_executor_defines_every_method_of_the_port_itself() -> None:
    port = {name for name, _ in inspect.getmembers(ToolExecutor, inspect.isfunction)}
    methods = {name for name in port if not name.startswith("_")}
    assert len(methods) == 14
    assert methods <= set(vars(ScopedExecutor))


def test_specs_are_the_viable_tools_in_the_order_of_the_agent() -> None:
    scoped = executor("http_post", "github:*", "ask_question", "broken", "clock_now")
    assert [spec.name for spec in scoped.specs()] == ["http_post", "github__log", "clock_now"]
    assert [scoped.owns(name) for name in ("broken", "github__log")] == [True, True]
    assert not any(scoped.owns(name) for name in ("git__log", "ask_question", "files_read", ""))
    broken = scoped.spec("broken")
    assert broken is not None
    assert broken.title == "Read a file"


async def test_a222_a_tool_that_is_replaced_after_it_was_offered_runs_as_it_was_offered() -> None:
    def says(text: str) -> RegisteredTool:
        async def body(call: ToolInvocation, workspace: Workspace) -> ToolOutcome:
            return answered({"said": text})

        return replace(FILES_READ, name="tell", description=text, body=body)

    tools = [says("old")]
    scoped = executor("tell", registry=ToolRegistry(tools))
    tools[0] = says("new")
    assert [spec.description for spec in scoped.specs()] == ["old"]
    assert (await scoped.execute(invocation("tell", {}))).text == '{"said":"old"}'


async def test_a_name_out_of_scope_asks_requires_everything_and_is_not_trusted() -> None:
    scoped = executor("clock_now")
    assert scoped.needs_approval("files_read")
    assert await scoped.pre_dispatch("files_read", {}) == DispatchRequireApproval()
    assert scoped.required_capabilities("files_read") == ALL_CAPABILITIES
    assert scoped.ingests_untrusted_content("files_read")
    assert not scoped.is_idempotent("files_write")
    assert not scoped.cacheable_approval("files_write")
    assert not await scoped.sandbox_would_deny("files_read", {"path": "/etc"})
    assert scoped.spec("files_read") is None
    assert await scoped.recover_unadvertised("files_read", {}) == ()
    assert (await scoped.execute(invocation("files_read", {"path": "a"}))).code == "tool_failed"


async def test_the_profile_of_a_tool_in_scope_answers_for_it() -> None:
    scoped = executor()
    assert scoped.required_capabilities("http_fetch") == {Capability.ARBITRARY_EGRESS}
    assert scoped.ingests_untrusted_content("http_fetch")
    assert not scoped.ingests_untrusted_content("files_read")
    assert scoped.is_idempotent("files_write")
    assert scoped.cacheable_approval("files_write")
    assert not scoped.cacheable_approval("http_post")
    assert await scoped.post_dispatch("http_post", {}, "{}") is None


@dataclass(frozen=True)
class Case:
    id: str
    rules: list[dict[str, str]]
    tool: str
    rule: str


CONSENT = [
    Case("no rule: default allows", [{}], "http_fetch", "allow"),
    Case("no rule: default asks", [{}], "http_post", "ask"),
    Case("no agent at all: default asks", [], "files_delete", "ask"),
    Case("own name", [{"http_post": "allow", "*": "veto"}], "http_post", "allow"),
    Case("star", [{"*": "ask"}], "clock_now", "ask"),
    Case("server", [{"github:*": "allow", "*": "veto"}], "github__log", "allow"),
    Case("server is no prefix", [{"git:*": "veto"}], "github__log", "ask"),
    Case("veto", [{"http_post": "veto"}], "http_post", "veto"),
    Case("stricter is now", [{"http_post": "allow"}, {"http_post": "veto"}], "http_post", "veto"),
    Case("stricter was then", [{"clock_now": "ask"}, {}], "clock_now", "ask"),
    Case("now without a rule", [{"http_post": "allow"}, {}], "http_post", "ask"),
]


@pytest.mark.parametrize("case", CONSENT, ids=lambda case: case.id)
async def test_the_strictest_rule_of_snapshot_and_present_agent_holds(case: Case) -> None:
    scoped = executor(rules=case.rules)
    decision = await scoped.pre_dispatch(case.tool, {})
    expected = {"allow": DispatchAllow, "ask": DispatchRequireApproval, "veto": DispatchDeny}
    assert type(decision) is expected[case.rule]
    assert scoped.needs_approval(case.tool) is (case.rule == "ask")


SANDBOX = ["files_list", "files_read", "files_write", "files_delete"]


@pytest.mark.parametrize("name", SANDBOX)
async def test_the_sandbox_denies_exactly_what_it_said_it_would(name: str) -> None:
    scoped = executor()
    for path in ("/etc/passwd", "../x", "a/../../x", "a\0"):
        args = {"path": path, "content": ""}
        assert await scoped.sandbox_would_deny(name, args)
        outcome = await scoped.execute(invocation(name, args))
        assert outcome.code == "sandbox_denied"
        assert result_of(outcome)["code"] == "sandbox_denied"
    args = {"path": "a", "content": ""}
    assert not await scoped.sandbox_would_deny(name, args)
    assert (await scoped.execute(invocation(name, args))).code != "sandbox_denied"


async def test_the_sandbox_has_no_say_in_other_tools() -> None:
    assert not await executor().sandbox_would_deny("http_fetch", {"url": "file:///etc"})


async def test_a_tool_without_its_requirement_says_what_is_missing() -> None:
    outcome = await executor().execute(invocation("broken", {"path": "a"}))
    assert outcome.code == "tool_failed"
    assert "bubblewrap is missing" in outcome.text


async def test_a_call_that_takes_too_long_is_a_failed_result() -> None:
    ended = asyncio.Event()

    async def wait(_call: ToolInvocation, _workspace: Workspace) -> ToolOutcome:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        return answered({})

    registry = ToolRegistry([replace(FILES_READ, name="slow", body=wait)])
    outcome = await executor("slow", registry=registry, limit_s=0.0).execute(invocation("slow", {}))
    assert outcome.code == "tool_timeout"
    assert ended.is_set()


async def test_the_time_of_a_call_begins_when_it_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever decides may take an hour: the tool has its minute after that."""

    async def take_turns(_call: ToolInvocation, _workspace: Workspace) -> ToolOutcome:
        await settle()
        return answered({})

    registry = ToolRegistry([replace(FILES_READ, name="own", body=take_turns)])
    offered = executor("own", registry=registry)
    loop = asyncio.get_running_loop()
    an_hour_later = loop.time() + 3600
    with monkeypatch.context() as clock:
        clock.setattr(loop, "time", lambda: an_hour_later)
        outcome = await offered.execute(invocation("own", {}))
    assert outcome.code is None


async def test_a_timeout_of_the_tools_own_is_not_taken_for_the_limit() -> None:
    async def fail(_call: ToolInvocation, _workspace: Workspace) -> ToolOutcome:
        raise TimeoutError("mine")

    registry = ToolRegistry([replace(FILES_READ, name="own", body=fail)])
    with pytest.raises(TimeoutError, match="mine"):
        await executor("own", registry=registry).execute(invocation("own", {}))


async def test_a_worker_has_its_share_of_the_tools_and_a_workspace_of_its_own() -> None:
    files = FilesInMemory()
    parent = ScopedExecutor(
        REGISTRY,
        ["files_write", "clock_now"],
        consent=[ConsentRules({"files_write": Consent.VETO})],
        workspace=ConversationWorkspace(files, "conv_1", clock=CLOCK),
        worker_workspace=lambda scope: ConversationWorkspace(files, scope.call_id, clock=CLOCK),
    )
    worker = parent.for_worker(WorkerScope("run_1", "worker-1", ("files_write", "http_post")))
    assert [spec.name for spec in worker.specs()] == ["files_write"]
    assert type(await worker.pre_dispatch("files_write", {})) is DispatchDeny
    await worker.execute(invocation("files_write", {"path": "a", "content": "x"}))
    assert list(files.rows) == [("worker-1", "a")]


def test_without_a_way_to_make_a_workspace_there_is_no_worker() -> None:
    with pytest.raises(NoWorkerWorkspace):
        executor().for_worker(WorkerScope("run_1", "worker-1", ()))
