"""Tools in memory: each with the properties a test needs, and a record of what ran.

tools = MemoryTools(MemoryTool("read"), MemoryTool("post", required=EGRESS, asks=True))
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from app.policy.capability import ALL_CAPABILITIES, Capability, CapabilitySet
from app.policy.taint import Trust
from app.turn.ports import (
    DispatchAllow,
    DispatchRedact,
    ToolDecision,
    ToolExecutor,
    ToolInvocation,
    ToolOutcome,
    ToolSpec,
    WorkerScope,
)

READ: Final = frozenset({Capability.LOCAL_READ})
WRITE: Final = READ | {Capability.LOCAL_WRITE}
CONNECTOR: Final = frozenset({Capability.FIXED_CONNECTOR_READ})
EGRESS: Final = frozenset({Capability.ARBITRARY_EGRESS})
POST: Final = EGRESS | {Capability.MUTATE_EXTERNAL}

Body = Callable[[ToolInvocation], Awaitable[ToolOutcome]]
ANY_OBJECT: Final[Mapping[str, Any]] = {"type": "object"}


async def answer_ok(call: ToolInvocation) -> ToolOutcome:
    """The ordinary body of a tool."""
    return ToolOutcome(text=f'{{"ran":"{call.name}"}}')


@dataclass(slots=True)
class MemoryTool:
    """One tool. The defaults are those of a harmless, unasked, local read."""

    name: str
    required: CapabilitySet = READ
    asks: bool = False
    ingests: bool = False
    idempotent: bool = False
    cacheable: bool = False
    parameters: Mapping[str, Any] = field(default_factory=lambda: ANY_OBJECT)
    body: Body = answer_ok
    decision: ToolDecision = field(default_factory=DispatchAllow)
    decision_error: Exception | None = None
    replacement: DispatchRedact | Exception | None = None
    sandbox: bool | Exception = False
    advertised: bool = True
    description_trust: Trust = Trust.UNSPECIFIED

    @property
    def spec(self) -> ToolSpec:
        """The spec; its title differs from the name, so that a mix-up shows."""
        return ToolSpec(
            name=self.name,
            description=f"The tool {self.name}",
            parameters=self.parameters,
            title=f"Title of {self.name}",
            definition_digest=f"digest-{self.name}",
            trust=self.description_trust,
        )


class MemoryTools:
    """A ToolExecutor over MemoryTools. `calls` are the executions, `gated` the pre-dispatches."""

    def __init__(self, *tools: MemoryTool) -> None:
        self.by_name = {tool.name: tool for tool in tools}
        self.calls: list[ToolInvocation] = []
        self.gated: list[str] = []
        self.recoverable: list[ToolSpec] = []
        self.recovery_error: Exception | None = None
        self.recovered: list[tuple[str, Mapping[str, Any]]] = []
        self.scopes: list[WorkerScope] = []
        self.worker_error: Exception | None = None

    @property
    def ran(self) -> list[str]:
        """The names of the tools that ran, in order."""
        return [call.name for call in self.calls]

    async def execute(self, call: ToolInvocation) -> ToolOutcome:
        self.calls.append(call)
        return await self.by_name[call.name].body(call)

    def specs(self) -> Sequence[ToolSpec]:
        return [tool.spec for tool in self.by_name.values() if tool.advertised]

    def owns(self, name: str) -> bool:
        return name in self.by_name

    def spec(self, name: str) -> ToolSpec | None:
        return self.by_name[name].spec if name in self.by_name else None

    def needs_approval(self, name: str) -> bool:
        return self.by_name[name].asks

    async def pre_dispatch(self, name: str, args: Mapping[str, Any]) -> ToolDecision:
        self.gated.append(name)
        if (error := self.by_name[name].decision_error) is not None:
            raise error
        return self.by_name[name].decision

    async def post_dispatch(
        self, name: str, args: Mapping[str, Any], result: str
    ) -> DispatchRedact | None:
        replacement = self.by_name[name].replacement
        if isinstance(replacement, Exception):
            raise replacement
        return replacement

    def cacheable_approval(self, name: str) -> bool:
        return self.by_name[name].cacheable

    def is_idempotent(self, name: str) -> bool:
        return self.by_name[name].idempotent

    async def sandbox_would_deny(self, name: str, args: Mapping[str, Any]) -> bool:
        sandbox = self.by_name[name].sandbox
        if isinstance(sandbox, Exception):
            raise sandbox
        return sandbox

    def required_capabilities(self, name: str) -> CapabilitySet:
        return self.by_name[name].required if name in self.by_name else ALL_CAPABILITIES

    def ingests_untrusted_content(self, name: str) -> bool:
        return self.by_name[name].ingests if name in self.by_name else True

    async def recover_unadvertised(self, name: str, args: Mapping[str, Any]) -> Sequence[ToolSpec]:
        self.recovered.append((name, args))
        if self.recovery_error is not None:
            raise self.recovery_error
        return self.recoverable

    def for_worker(self, scope: WorkerScope) -> ToolExecutor:
        """These very tools: what a worker ran is in `calls` too. `scopes` are what was asked."""
        if self.worker_error is not None:
            raise self.worker_error
        self.scopes.append(scope)
        return self
