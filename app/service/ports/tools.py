"""What the service needs of tools, and of the MCP servers that offer some."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from app.service.ports.skills import SkillTools

if TYPE_CHECKING:
    from collections.abc import Sequence

    from app.log.servers import McpListing, McpServerRecord
    from app.policy.dispatch import CallRules
    from app.turn.ports import SharedFiles, ToolExecutor


class McpReach(Protocol):
    """The way from this process to MCP servers."""

    async def objection(self, server: McpServerRecord) -> tuple[str, str] | None:
        """The member of a registration that can never work here, and why."""
        ...

    async def look(self, server: McpServerRecord, *, limit_s: float) -> McpListing:
        """The tools that the server lists now, or why it lists none; within that time."""
        ...


class Toolbox(SkillTools, Protocol):
    """The tools of this deployment."""

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
        ...

    def shared_files(self, *, tenant: str, conversation_id: str) -> SharedFiles:
        """The way of a conversation's files into the workspaces of its workers."""
        ...
