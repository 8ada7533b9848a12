"""What the service reads and writes of agents, and of the MCP servers of their tools."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from app.log.queries import Page
    from app.log.records import AgentRecord
    from app.log.servers import McpServerRecord


class AgentReads(Protocol):
    """Reads of a tenant's agents and MCP servers."""

    async def agent(self, name: str) -> AgentRecord | None: ...
    async def agent_and_open_runs(
        self, name: str, principal: str
    ) -> tuple[AgentRecord, int] | None:
        """The agent, and how many runs of the principal, of any agent, have not ended."""
        ...

    async def agents(self, page: Page) -> list[AgentRecord]: ...
    async def mcp_servers(self, names: Sequence[str] | None = None) -> list[McpServerRecord]:
        """The MCP servers of these names, or all of them, newest first."""
        ...


class AgentWrites(Protocol):
    """Writes of a tenant's agents and MCP servers."""

    async def put_agent(self, agent: AgentRecord) -> None: ...
    async def delete_agent(self, name: str) -> bool: ...
    async def add_mcp_server(self, server: McpServerRecord) -> bool:
        """Add a server; False when there is one of its name."""
        ...

    async def pin_mcp_server(self, server: McpServerRecord) -> bool:
        """Pin what a server said; False when it was changed since that version was read."""
        ...

    async def delete_mcp_server(self, name: str) -> bool: ...
