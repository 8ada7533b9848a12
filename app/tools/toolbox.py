"""The toolbox: the registry of a deployment, and executors bound to a conversation's workspace."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.runctx.skill import SkillCapability
from app.runctx.skills.reader import RunSkills, SkillReader
from app.tools.builtin import skill_tools
from app.tools.executors.dispatch_rules import RuledExecutor
from app.tools.executors.executor import ScopedExecutor
from app.tools.executors.hatch import HatchedExecutor
from app.tools.mcp.offered import tools_of
from app.tools.sandbox.roots import RootedWorkspace
from app.tools.sandbox.workspace import ConversationWorkspace, SharedWorkspace, worker_place

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from app.ids import Identity
    from app.log.servers import McpServerRecord
    from app.policy.dispatch import CallRules
    from app.runctx.skill import SkillSettings
    from app.runctx.skills.meaning import SkillMeanings
    from app.tools.mcp.offered import McpCalls
    from app.tools.ports import ToolStore
    from app.tools.registry import RegisteredTool, ToolRegistry
    from app.turn.ports import Clock, SharedFiles, ToolExecutor, WorkerScope


class Toolbox:
    """Everything the service wants of tools; `store` has what they read and write.

    `roots` are the folders that a relaxed sandbox opens; `calls` is the way to MCP servers, without
    which there are none.
    """

    def __init__(
        self,
        registry: ToolRegistry,
        *,
        store: ToolStore,
        clock: Clock,
        roots: Sequence[Path] = (),
        calls: McpCalls | None = None,
        meanings: SkillMeanings | None = None,
    ) -> None:
        self._registry = registry
        self._store = store
        self._clock = clock
        self._roots = roots
        self._calls = calls
        self._meanings = meanings

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

        def workspace(scope: WorkerScope | None = None) -> RootedWorkspace:
            files = ConversationWorkspace(
                self._store.workspace(tenant),
                conversation_id,
                clock=self._clock,
                place=None if scope is None else worker_place(scope),
                trusts_uploads=rules.trusts_uploads,
            )
            return RootedWorkspace(files, self._roots)

        executor: ToolExecutor = ScopedExecutor(
            registry,
            names,
            consent=rules.consent,
            workspace=workspace(),
            worker_workspace=workspace,
        )
        if escape_hatch:
            executor = HatchedExecutor(executor, names, search=self._store.tool_search)
        if rules.dispatches:
            executor = RuledExecutor(executor, rules, server_of=registry.server_of)
        return executor

    def skills(
        self,
        identity: Identity,
        *,
        revision: int,
        settings: SkillSettings,
        names: Sequence[str],
        servers: Sequence[McpServerRecord] = (),
    ) -> RunSkills:
        """The skills of a run at a revision, for an agent that has the tools `names`."""
        registry = self._with(servers)
        seen = [tool for entry in names for tool in registry.named(entry) if tool.is_viable]
        capability = SkillCapability(
            tools=frozenset(tool.name for tool in seen),
            namespaces=frozenset(tool.server for tool in seen if tool.server is not None),
            known_tools=frozenset(tool.name for tool in registry.all()),
        )
        store = self._store.skills(identity.tenant)
        reader = SkillReader(
            store, identity, revision=revision, settings=settings, meanings=self._meanings
        )
        return RunSkills(reader, capability)

    def reading(self, skills: RunSkills) -> Toolbox:
        """The same toolbox with skill tools that read these skills."""
        registry = self._registry.rebound(skill_tools(skills))
        return Toolbox(
            registry,
            store=self._store,
            clock=self._clock,
            roots=self._roots,
            calls=self._calls,
            meanings=self._meanings,
        )

    def shared_files(self, *, tenant: str, conversation_id: str) -> SharedFiles:
        """The way of a conversation's files into the workspaces of its workers."""
        return SharedWorkspace(self._store.workspace(tenant), conversation_id)

    def _with(self, servers: Iterable[McpServerRecord]) -> ToolRegistry:
        calls = self._calls
        if calls is None or not servers:
            return self._registry
        return self._registry.extended(tool for each in servers for tool in tools_of(each, calls))
