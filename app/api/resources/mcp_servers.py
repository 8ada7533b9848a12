"""MCP servers: registered, listed, asked again, removed (service.md 3). No answer has a header.

A server is asked before the transaction begins, so that a slow one holds nothing but its request.
"""

from __future__ import annotations

from typing import Literal

from pydantic import ValidationError
from starlette.requests import Request
from typing_extensions import override

from app.api.edge import Call, Reading, Writing
from app.api.paging import Cursor, Limit, cut_page, is_time_key, page_of, time_key
from app.api.routes import Prepared, PreparedRoute, Routes
from app.api.wire import Document, Time, time_or_none
from app.log.envelope import wire_time
from app.log.servers import McpServerRecord
from app.service.agents.mcp_spec import McpServerSpec, ToolFlags

routes = Routes(tags=["tools"])


class McpServer(Document):
    """A server as registered, with the names its tools have here.

    `refused` has a sentence for each tool that cannot be offered.
    """

    name: str
    transport: Literal["http", "stdio"]
    url: str | None
    command: str | None
    registered: bool
    profile: dict[str, ToolFlags]
    tools: list[str]
    refused: list[str]
    viable: bool
    why_not: str | None
    created_at: Time
    listed_at: Time | None


class McpServerList(Document):
    """A page of servers, newest first."""

    items: list[McpServer]
    next_cursor: str | None


class ProposingRoute(PreparedRoute):
    """A registration: the proposed server, asked for its tools."""

    @override
    async def prepared(self, request: Request, call: Call) -> object:
        """The server; nothing for a body that the framework will refuse."""
        try:
            spec = McpServerSpec.model_validate(await request.json())
        except ValidationError:
            return None
        return await call.edge.mcp_servers.proposed(call.caller, spec)


class RefreshingRoute(PreparedRoute):
    """A refresh: what the server lists now."""

    @override
    async def prepared(self, request: Request, call: Call) -> object:
        """The server that was asked, and its listing."""
        return await call.edge.mcp_servers.asked(call.caller, request.path_params["name"])


@routes.write(
    "POST",
    "/v1/mcp-servers",
    "register_mcp_server",
    scope="tools:write",
    kind=ProposingRoute,
    status_code=201,
)
async def register_mcp_server(
    call: Writing,
    body: McpServerSpec,  # noqa: ARG001 - it was read before the server was asked
    server: Prepared,
) -> McpServer:
    """Register a server, and ask it for its tools; one that does not answer may do so later."""
    await call.edge.mcp_servers.add(call.tx, call.caller, server)
    return _server_document(server)


@routes.read("/v1/mcp-servers", "list_mcp_servers", scope="tools:read")
async def list_mcp_servers(
    call: Reading, *, limit: Limit = 50, cursor: Cursor = None
) -> McpServerList:
    """The tenant's servers, newest first."""
    page = page_of(limit, cursor, is_sound=is_time_key)
    found = await call.edge.mcp_servers.page(call.session, page)
    shown, more = cut_page(found, limit, _server_key)
    return McpServerList(items=[_server_document(server) for server in shown], next_cursor=more)


@routes.read("/v1/mcp-servers/{name}", "get_mcp_server", scope="tools:read")
async def get_mcp_server(call: Reading, name: str) -> McpServer:
    """One server."""
    return _server_document(await call.edge.mcp_servers.read(call.session, name))


@routes.write(
    "POST",
    "/v1/mcp-servers/{name}/refresh",
    "refresh_mcp_server",
    scope="tools:write",
    kind=RefreshingRoute,
)
async def refresh_mcp_server(
    call: Writing,
    name: str,  # noqa: ARG001 - it was read before the server was asked
    heard: Prepared,
) -> McpServer:
    """Ask the server again; a tool that it defines otherwise now inherits no approval."""
    asked, found = heard
    refreshed = await call.edge.mcp_servers.refresh(call.tx, call.caller, asked, found)
    return _server_document(refreshed)


@routes.write(
    "DELETE", "/v1/mcp-servers/{name}", "delete_mcp_server", scope="tools:write", status_code=204
)
async def delete_mcp_server(call: Writing, name: str) -> None:
    """Remove a server; its tools can be called no more."""
    await call.edge.mcp_servers.delete(call.tx, call.caller, name)


def _server_document(server: McpServerRecord) -> McpServer:
    """How a server is shown."""
    return McpServer(
        name=server.name,
        transport=server.transport,
        url=server.url,
        command=server.command,
        registered=server.registered,
        profile={tool: ToolFlags(**flags) for tool, flags in server.profile.items()},
        tools=_names(server),
        refused=list(server.refused),
        viable=server.why_not is None,
        why_not=server.why_not,
        created_at=wire_time(server.created_at),
        listed_at=time_or_none(server.listed_at),
    )


def _names(server: McpServerRecord) -> list[str]:
    return sorted(server.full_name(tool) for tool in server.tools if tool.is_listed)


def _server_key(server: McpServerRecord) -> str:
    return time_key(server.created_at, server.name)
