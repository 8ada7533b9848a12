"""Pinning what a server says of its tools: requirements only ever grow (turn.md 5.2).

A tool that is declared again keeps the less trusted value of each flag, one that disappears is
remembered, and comes back as what it was. The operator's word stands above the server's.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from datetime import datetime

    from app.log.servers import McpListing, McpServerRecord, McpTool

# What is remembered of one server, tools that are gone included.
MAX_REMEMBERED: Final = 1024


def pinned(server: McpServerRecord, found: McpListing, *, now: datetime) -> McpServerRecord:
    """The server after it was asked for its tools; the very same if nothing has changed."""
    if found.why_not is not None:
        return server if server.why_not == found.why_not else replace(server, why_not=found.why_not)
    known = {tool.name: tool for tool in server.tools}
    tools = dict(known)
    refused = list(found.refused)
    for tool in found.tools:
        if tool.name in tools or len(tools) < MAX_REMEMBERED:
            tools[tool.name] = _declared(server, tool, known.get(tool.name))
        else:
            refused.append(f"{tool.name!r}: the server has listed too many tools over time")
    listed = {tool.name for tool in found.tools}
    for name in tools.keys() - listed:
        tools[name] = replace(tools[name], is_listed=False)
    after = replace(server, tools=tuple(tools.values()), refused=tuple(refused), why_not=None)
    return server if _are_alike(server, after) else replace(after, listed_at=now)


def _declared(server: McpServerRecord, tool: McpTool, before: McpTool | None) -> McpTool:
    said = {**tool.hints, **server.profile.get(tool.name, {})}
    read_only = said.get("read_only", False)
    now = replace(
        tool,
        read_only=read_only,
        # A tool that only reads destroys nothing, unless it says that as well.
        destructive=said.get("destructive", not read_only),
        open_world=said.get("open_world", True),
        idempotent=said.get("idempotent", False),
    )
    if before is None:
        return now
    profile = server.profile_of(before).merged(server.profile_of(now))
    return replace(
        now,
        read_only=profile.read_only,
        destructive=profile.destructive,
        open_world=profile.open_world,
        idempotent=before.idempotent and now.idempotent,
    )


def _are_alike(before: McpServerRecord, after: McpServerRecord) -> bool:
    return (
        before.listed_at is not None
        and before.refused == after.refused
        and before.why_not == after.why_not
        and len(before.tools) == len(after.tools)
        and all(map(_is_same, before.tools, after.tools))
    )


def _is_same(a: McpTool, b: McpTool) -> bool:
    return a.name == b.name and a.flags == b.flags and a.is_defined_as(b)
