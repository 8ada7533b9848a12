"""The toolbox: the registry of a deployment, and executors bound to a conversation's workspace."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.tools.executor import ScopedExecutor
from app.tools.workspace import ConversationWorkspace

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from app.policy.consent import ConsentRules
    from app.tools.ports import WorkspaceStore
    from app.tools.registry import RegisteredTool, ToolRegistry
    from app.turn.ports import Clock


class Toolbox:
    """Everything the service wants of tools; `files` gives a tenant's workspace store."""

    def __init__(
        self, registry: ToolRegistry, *, files: Callable[[str], WorkspaceStore], clock: Clock
    ) -> None:
        self._registry = registry
        self._files = files
        self._clock = clock

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
    ) -> ScopedExecutor:
        """The tools `names`, under the strictest of some consent rules, on one workspace."""
        workspace = ConversationWorkspace(self._files(tenant), conversation_id, clock=self._clock)
        return ScopedExecutor(self._registry, names, consent=consent, workspace=workspace)
