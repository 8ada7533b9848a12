"""A house beside an MCP server of tools, which it may reach and has registered."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from app.service.agents.mcp_spec import McpServerSpec
from app.tools.mcp.connections import McpConnections
from app.turn.clock import LoopClock
from tests.support.loopback.mcp_server import Served, ToolServer, served_tools
from tests.support.service.house import PEOPLE, House

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from app.log.servers import McpServerRecord
    from app.store.open import Store

ADMIN = PEOPLE | {"admin"}


@dataclass
class McpHouse:
    """A house, and the server it knows as `box`."""

    house: House
    tools: ToolServer
    served: Served

    async def register(self, *, registered: bool = True, **members: Any) -> McpServerRecord:
        """Register the server, as an administrator."""
        spec = McpServerSpec.model_validate(
            {"name": "box", "transport": "http", "url": self.served.url, "registered": registered}
            | members
        )
        root = await self.house.person("root", scopes=ADMIN)
        server = await self.house.servers.proposed(root.caller, spec)
        async with self.house.store.database.transaction(self.house.tenant) as tx:
            await self.house.servers.add(tx, root.caller, server)
        return server


@asynccontextmanager
async def mcp_house(
    store: Store, tenant: str, tools: ToolServer, **commands: list[str]
) -> AsyncIterator[McpHouse]:
    """The house and the server, for the length of the block."""
    async with served_tools(tools) as served:
        reach = McpConnections(LoopClock(), commands=commands, allow_hosts=[served.host])
        async with reach.running():
            yield McpHouse(House(store, tenant, reach=reach), tools, served)
