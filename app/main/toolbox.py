"""The tools of the house: those that are built in, and the way to MCP servers."""

from __future__ import annotations

from contextlib import aclosing, asynccontextmanager
from typing import TYPE_CHECKING

from app.runctx.skills.meaning import SkillMeanings
from app.tools.builtin import builtin_tools
from app.tools.http import OutboundHttp
from app.tools.mcp.connections import McpConnections
from app.tools.registry import ToolRegistry
from app.tools.sandbox.bubblewrap import find_shell
from app.tools.toolbox import Toolbox

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from app.providers.embedding import ContractEmbedder
    from app.service.clock import Clock
    from app.service.runs.late_results import LateResults
    from app.settings import Settings
    from app.store.open import Store


@asynccontextmanager
async def open_connections(
    settings: Settings, clock: Clock, late: LateResults
) -> AsyncIterator[McpConnections]:
    """The connections to MCP servers, whose late answers are heard as well."""
    commands, hosts = settings.mcp_commands, settings.http_allow_hosts
    reach = McpConnections(clock, commands=commands, allow_hosts=hosts)
    reach.on_late(late.heard)
    async with late.running(), reach.running():
        yield reach


@asynccontextmanager
async def open_toolbox(
    store: Store,
    settings: Settings,
    embedder: ContractEmbedder,
    *,
    clock: Clock,
    calls: McpConnections,
) -> AsyncIterator[Toolbox]:
    """Every tool that an agent may name, over the store and those connections."""
    async with aclosing(OutboundHttp(settings.http_allow_hosts)) as http:
        yield Toolbox(
            ToolRegistry(builtin_tools(clock, http, shell=await find_shell())),
            store=store,
            clock=clock,
            roots=settings.sandbox_roots,
            calls=calls,
            meanings=SkillMeanings(embedder),
        )
