"""The tools of a registered server, as the registry has them: pinned, and called over its wire."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from app.policy.consent import Consent
from app.tools.registry import RegisteredTool

if TYPE_CHECKING:
    from app.log.servers import McpServerRecord, McpTool
    from app.tools.ports import Workspace
    from app.turn.ports import ToolInvocation, ToolOutcome


class McpCalls(Protocol):
    """Calls of a server's tools."""

    async def call(
        self, server: McpServerRecord, tool: McpTool, call: ToolInvocation, *, repeatable: bool
    ) -> ToolOutcome:
        """The outcome; only a repeatable call is sent again when its connection was lost."""
        ...


def tools_of(server: McpServerRecord, calls: McpCalls) -> tuple[RegisteredTool, ...]:
    """The tools that the server lists. Its own words make neither a card's title nor its rule."""
    return tuple(_tool(server, tool, calls) for tool in server.tools if tool.is_listed)


def _tool(server: McpServerRecord, tool: McpTool, calls: McpCalls) -> RegisteredTool:
    profile = server.profile_of(tool)
    is_harmless = server.registered and tool.read_only and not tool.destructive
    idempotent = server.registered and tool.idempotent

    async def body(call: ToolInvocation, _workspace: Workspace) -> ToolOutcome:
        return await calls.call(server, tool, call, repeatable=is_harmless or idempotent)

    return RegisteredTool(
        name=server.full_name(tool),
        title=f"{server.name}: {tool.name}",
        description=tool.description,
        parameters=tool.parameters,
        profile=profile,
        body=body,
        idempotent=idempotent,
        consent=Consent.ASK if server.registered and not is_harmless else Consent.ALLOW,
        server=server.name,
        address=server.address,
        hints=tool.hints,
        why_not=server.why_not,
    )
