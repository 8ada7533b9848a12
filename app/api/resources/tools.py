"""The tools that an agent may name (service.md 3)."""

from __future__ import annotations

from pydantic import JsonValue

from app.api.edge import Reading
from app.api.paging import Cursor, Limit, cut_page, page_of
from app.api.routes import Routes
from app.api.wire import Document
from app.engine.json.text import thaw
from app.policy.capability import in_order
from app.service.agents.tool_listing import ListedTool

routes = Routes(tags=["tools"])


class Tool(Document):
    """A tool, what it requires, and whether it works here."""

    name: str
    description: str
    parameters: dict[str, JsonValue]
    origin: str
    required_capabilities: list[str]
    ingests_untrusted: bool
    idempotent: bool
    definition_digest: str
    viable: bool
    why_not: str | None


class ToolList(Document):
    """A page of tools, by name."""

    items: list[Tool]
    next_cursor: str | None


@routes.read("/v1/tools", "list_tools", scope="tools:read")
async def list_tools(call: Reading, *, limit: Limit = 50, cursor: Cursor = None) -> ToolList:
    """The tools of this deployment and of the tenant's MCP servers, by name."""
    found = await call.edge.tools.page(call.session, page_of(limit, cursor))
    shown, more = cut_page(found, limit, lambda tool: tool.name)
    return ToolList(items=[_tool_document(tool) for tool in shown], next_cursor=more)


def _tool_document(tool: ListedTool) -> Tool:
    """How a tool is shown."""
    return Tool(
        name=tool.name,
        description=tool.description,
        parameters=thaw(tool.parameters),
        origin=tool.profile.origin,
        required_capabilities=[str(name) for name in in_order(tool.profile.required())],
        ingests_untrusted=tool.profile.ingests_untrusted,
        idempotent=tool.idempotent,
        definition_digest=tool.definition_digest,
        viable=tool.why_not is None,
        why_not=tool.why_not,
    )
