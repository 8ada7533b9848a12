"""The toolbox: the registry of a deployment, and executors bound to a conversation's workspace."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.tools.executor import ScopedExecutor
from app.tools.hatch import HatchedExecutor
from app.tools.sandbox_roots import RootedWorkspace
from app.tools.workspace import ConversationWorkspace

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from app.policy.consent import ConsentRules
    from app.tools.ports import ToolSearch, WorkspaceStore
    from app.tools.registry import RegisteredTool, ToolRegistry
    from app.turn.ports import Clock, ToolExecutor


class Toolbox:
    """Everything the service wants of tools; `files` gives a tenant's workspace store.

    `search` is what an agent's escape hatch finds tools with; `roots` are the folders that a
    relaxed sandbox opens.
    """

    def __init__(
        self,
        registry: ToolRegistry,
        *,
        files: Callable[[str], WorkspaceStore],
        search: ToolSearch,
        clock: Clock,
        roots: Sequence[Path] = (),
    ) -> None:
        self._registry = registry
        self._files = files
        self._search = search
        self._clock = clock
        self._roots = roots

    def tools(self) -> Sequence[RegisteredTool]:
        """Every registered tool."""
        return self._registry.all()

    def executor(
        self,
        *,
        tenant: str,
        conversation_id: str,
        names: Sequence[str],
        consent: Sequence[ConsentRules],
        escape_hatch: bool,
    ) -> ToolExecutor:
        """The tools `names`, under the strictest of some consent rules, on one workspace.

        With the escape hatch they need not all be offered.
        """
        files = ConversationWorkspace(self._files(tenant), conversation_id, clock=self._clock)
        workspace = RootedWorkspace(files, self._roots)
        scoped = ScopedExecutor(self._registry, names, consent=consent, workspace=workspace)
        return HatchedExecutor(scoped, names, search=self._search) if escape_hatch else scoped
