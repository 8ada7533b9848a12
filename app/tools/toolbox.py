"""The toolbox: the registry of a deployment, and executors bound to a conversation's workspace."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.tools.dispatch_rules import RuledExecutor
from app.tools.executor import ScopedExecutor
from app.tools.hatch import HatchedExecutor
from app.tools.mcp.offered import tools_of
from app.tools.sandbox_roots import RootedWorkspace
from app.tools.workspace import ConversationWorkspace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from app.log.servers import McpServerRecord
    from app.policy.dispatch import CallRules
    from app.tools.mcp.offered import McpCalls
    from app.tools.ports import ToolSearch, WorkspaceStore
    from app.tools.registry import RegisteredTool, ToolRegistry
    from app.turn.ports import Clock, ToolExecutor


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
        files = ConversationWorkspace(self._files(tenant), conversation_id, clock=self._clock)
        workspace = RootedWorkspace(files, self._roots)
        registry = self._with(servers)
        executor: ToolExecutor = ScopedExecutor(
            registry, names, consent=rules.consent, workspace=workspace
        )
        if escape_hatch:
            executor = HatchedExecutor(executor, names, search=self._search)
        if rules.dispatches:
            executor = RuledExecutor(executor, rules, server_of=registry.server_of)
        return executor

    def _with(self, servers: Iterable[McpServerRecord]) -> ToolRegistry:
        calls = self._calls
        if calls is None or not servers:
            return self._registry
        return self._registry.extended(tool for each in servers for tool in tools_of(each, calls))
