"""The toolbox: the registry of a deployment, and executors bound to a conversation's workspace."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.tools.dispatch_rules import RuledExecutor
from app.tools.executor import ScopedExecutor
from app.tools.hatch import HatchedExecutor
from app.tools.mcp.offered import tools_of
from app.tools.sandbox_roots import RootedWorkspace
from app.tools.workspace import ConversationWorkspace, SharedWorkspace, worker_place

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from app.log.servers import McpServerRecord
    from app.policy.dispatch import CallRules
    from app.tools.mcp.offered import McpCalls
    from app.tools.ports import ToolSearch, WorkspaceStore
    from app.tools.registry import RegisteredTool, ToolRegistry
    from app.turn.ports import Clock, SharedFiles, ToolExecutor


class Toolbox:
    """Everything the service wants of tools; `files` gives a tenant's workspace store.

    `search` is what an agent's escape hatch finds tools with; `roots` are the folders that a
    relaxed sandbox opens; `calls` is the way to MCP servers, without which there are none.
    """

    def __init__(
        self,
        registry: ToolRegistry,
        *,
        files: Callable[[str], WorkspaceStore],
        search: ToolSearch,
        clock: Clock,
        roots: Sequence[Path] = (),
        calls: McpCalls | None = None,
    ) -> None:
        self._registry = registry
        self._files = files
        self._search = search
        self._clock = clock
        self._roots = roots
        self._calls = calls

    def tools(self, servers: Iterable[McpServerRecord] = ()) -> Sequence[RegisteredTool]:
        """Every registered tool, with those of a tenant's servers."""
        return self._with(servers).all()

    def executor(
        self,
        *,
        tenant: str,
        conversation_id: str,
        names: Sequence[str],
        rules: CallRules,
        escape_hatch: bool,
        servers: Sequence[McpServerRecord] = (),
    ) -> ToolExecutor:
        """The tools `names`, under an agent's rules, on one workspace.

        Those of MCP servers are theirs as they are pinned in `servers`. With the escape hatch they
        need not all be offered.
        """
        registry = self._with(servers)
        executor: ToolExecutor = ScopedExecutor(
            registry,
            names,
            consent=rules.consent,
            workspace=self._workspace(tenant, conversation_id),
            worker_workspace=lambda scope: self._workspace(tenant, worker_place(scope)),
        )
        if escape_hatch:
            executor = HatchedExecutor(executor, names, search=self._search)
        if rules.dispatches:
            executor = RuledExecutor(executor, rules, server_of=registry.server_of)
        return executor

    def shared_files(self, *, tenant: str, conversation_id: str) -> SharedFiles:
        """The way of a conversation's files into the workspaces of its workers."""
        return SharedWorkspace(self._files(tenant), conversation_id)

    def _workspace(self, tenant: str, place: str) -> RootedWorkspace:
        files = ConversationWorkspace(self._files(tenant), place, clock=self._clock)
        return RootedWorkspace(files, self._roots)

    def _with(self, servers: Iterable[McpServerRecord]) -> ToolRegistry:
        calls = self._calls
        if calls is None or not servers:
            return self._registry
        return self._registry.extended(tool for each in servers for tool in tools_of(each, calls))
