"""The executor of one agent in one conversation: its tools, and nothing beyond them (turn.md 3.9).

A name outside of the agent's set is answered as the gate answers the unknown: it asks, it requires
every capability, and what it says is untrusted.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final, assert_never

from typing_extensions import override

from app.errors import TurngateError
from app.policy.capability import ALL_CAPABILITIES
from app.policy.consent import Consent, stricter
from app.tools.outcomes import SANDBOX_DENIED, TOOL_FAILED, TOOL_TIMEOUT, failed
from app.tools.paths import SandboxDenied
from app.tools.ports import FileRefused
from app.turn.ports import (
    DispatchAllow,
    DispatchDeny,
    DispatchRequireApproval,
    ToolExecutor,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from app.policy.capability import CapabilitySet
    from app.policy.consent import ConsentRules
    from app.tools.ports import Workspace
    from app.tools.registry import RegisteredTool, ToolRegistry
    from app.turn.ports import (
        DispatchRedact,
        ToolDecision,
        ToolInvocation,
        ToolOutcome,
        ToolSpec,
        WorkerScope,
    )

CALL_LIMIT_S: Final = 60.0


class NoWorkerWorkspace(TurngateError):
    """A worker has a workspace of its own, and this executor was given no way to make one."""


class ScopedExecutor(ToolExecutor):
    """The tools that `entries` (an agent's `tools`) name.

    `consent` holds the rules of the run's snapshot of the agent and of the agent as it is now; the
    stricter of them holds for each tool.
    """

    def __init__(
        self,
        registry: ToolRegistry,
        entries: Sequence[str],
        *,
        consent: Sequence[ConsentRules],
        workspace: Workspace,
        worker_workspace: Callable[[WorkerScope], Workspace] | None = None,
        call_limit_s: float = CALL_LIMIT_S,
    ) -> None:
        self._registry = registry
        self._tools = {tool.name: tool for entry in entries for tool in registry.named(entry)}
        self._consent = tuple(consent)
        self._workspace = workspace
        self._worker_workspace = worker_workspace
        self._call_limit_s = call_limit_s

    @override
    async def execute(self, call: ToolInvocation) -> ToolOutcome:
        """Run the call within its time. Cancelling it cancels the tool."""
        tool = self._tools.get(call.name)
        if tool is None:
            return failed(TOOL_FAILED, f"unknown tool {call.name!r}")
        if tool.why_not is not None and tool.server is None:
            # What the deployment lacks stays away; a server may be back by the time of the call.
            return failed(TOOL_FAILED, f"{call.name} is not available here: {tool.why_not}")
        limit = asyncio.timeout(self._call_limit_s)
        try:
            async with limit:
                return await tool.body(call, self._workspace)
        except SandboxDenied as error:
            return failed(SANDBOX_DENIED, str(error))
        except FileRefused as error:
            return failed(TOOL_FAILED, str(error))
        except TimeoutError:
            if not limit.expired():
                raise
            return failed(TOOL_TIMEOUT, f"no result within {self._call_limit_s:g} s")

    @override
    def specs(self) -> Sequence[ToolSpec]:
        """The tools on offer, in the order in which the agent names them."""
        return [tool.spec for tool in self._tools.values() if tool.is_viable]

    @override
    def owns(self, name: str) -> bool:
        """Whether the tool is in the agent's set."""
        return name in self._tools

    @override
    def spec(self, name: str) -> ToolSpec | None:
        """The spec of an owned tool, offered or not."""
        tool = self._tools.get(name)
        return None if tool is None else tool.spec

    @override
    def needs_approval(self, name: str) -> bool:
        """Whether the ordinary consent rule asks."""
        return self._rule(name) is Consent.ASK

    @override
    async def pre_dispatch(self, name: str, args: Mapping[str, Any]) -> ToolDecision:
        """What the agent's consent rules make of the call, whatever its arguments."""
        rule = self._rule(name)
        match rule:
            case Consent.VETO:
                return DispatchDeny(f"the agent's rules do not allow {name}")
            case Consent.ASK:
                return DispatchRequireApproval()
            case Consent.ALLOW:
                return DispatchAllow()
            case _:
                assert_never(rule)

    @override
    async def post_dispatch(
        self, name: str, args: Mapping[str, Any], result: str
    ) -> DispatchRedact | None:
        """No tool changes results by itself."""
        return None

    @override
    def cacheable_approval(self, name: str) -> bool:
        """Whether a session approval may serve the tool."""
        tool = self._tools.get(name)
        return tool is not None and tool.is_session_approvable

    @override
    def is_idempotent(self, name: str) -> bool:
        """Whether running a call twice under one key has one effect."""
        tool = self._tools.get(name)
        return tool is not None and tool.idempotent

    @override
    async def sandbox_would_deny(self, name: str, args: Mapping[str, Any]) -> bool:
        """Whether the sandbox refuses such a call. No side effects."""
        tool = self._tools.get(name)
        return tool is not None and tool.denies is not None and tool.denies(args)

    @override
    def required_capabilities(self, name: str) -> CapabilitySet:
        """What every call of the tool needs; of an unknown one, everything."""
        tool = self._tools.get(name)
        return ALL_CAPABILITIES if tool is None else tool.profile.required()

    @override
    def ingests_untrusted_content(self, name: str) -> bool:
        """Whether a result carries content from outside; an unknown tool's does."""
        tool = self._tools.get(name)
        return tool is None or tool.profile.ingests_untrusted

    @override
    async def recover_unadvertised(self, name: str, args: Mapping[str, Any]) -> Sequence[ToolSpec]:
        """Nothing: whatever the agent has and the deployment can run is advertised."""
        return ()

    @override
    def for_worker(self, scope: WorkerScope) -> ScopedExecutor:
        """The worker's share of the tools, in its own workspace. Raises NoWorkerWorkspace."""
        if self._worker_workspace is None:
            raise NoWorkerWorkspace(f"no workspace for the worker of call {scope.call_id!r}")
        return ScopedExecutor(
            self._registry,
            [name for name in scope.tools if name in self._tools],
            consent=self._consent,
            workspace=self._worker_workspace(scope),
            call_limit_s=self._call_limit_s,
        )

    def _rule(self, name: str) -> Consent:
        tool = self._tools.get(name)
        if tool is None:
            return Consent.ASK
        strictest = Consent.ALLOW if self._consent else tool.consent
        for rules in self._consent:
            strictest = stricter(strictest, _rule_of(tool, rules))
        return strictest


def _rule_of(tool: RegisteredTool, rules: ConsentRules) -> Consent:
    rule = rules.rule_for(tool.name, tool.server)
    return tool.consent if rule is None else rule
