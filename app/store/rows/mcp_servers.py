"""MCP servers of a tenant: rows, and the records they are read as."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

import orjson

from app.log.servers import McpServerRecord, McpTool
from app.store.texts import escape_if_any, json_text, unescape, unescape_if_any

if TYPE_CHECKING:
    import asyncpg

ALL: Final = """
SELECT * FROM mcp_servers
WHERE tenant = $1 AND ($2::text[] IS NULL OR name = ANY ($2)) ORDER BY created_at DESC, name DESC"""
ADD: Final = """
INSERT INTO mcp_servers (tenant, name, transport, url, command, headers, registered, profile, tools,
    refused, why_not, version, created_at, listed_at, digests_address)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)
ON CONFLICT (tenant, name) DO NOTHING RETURNING true"""

# Two processes may ask a server at once; what the later one merges must begin from the other's.
PIN: Final = """
UPDATE mcp_servers SET tools = $3, refused = $4, why_not = $5, listed_at = $6, version = version + 1
WHERE tenant = $1 AND name = $2 AND version = $7 AND created_at = $8 RETURNING true"""
DELETE: Final = "DELETE FROM mcp_servers WHERE tenant = $1 AND name = $2 RETURNING true"


def added(tenant: str, server: McpServerRecord) -> tuple[Any, ...]:
    """The parameters of ADD."""
    return (
        tenant,
        server.name,
        server.transport,
        escape_if_any(server.url),
        escape_if_any(server.command),
        json_text(dict(server.headers)),
        server.registered,
        json_text(server.profile),
        _tools_text(server),
        json_text(server.refused),
        escape_if_any(server.why_not),
        server.version,
        server.created_at,
        server.listed_at,
        server.digests_address,
    )


def pinned(tenant: str, server: McpServerRecord) -> tuple[Any, ...]:
    """The parameters of PIN; `version` is the one that the change was made from."""
    return (
        tenant,
        server.name,
        _tools_text(server),
        json_text(server.refused),
        escape_if_any(server.why_not),
        server.listed_at,
        server.version,
        server.created_at,
    )


def record(row: asyncpg.Record) -> McpServerRecord:
    """A row of mcp_servers."""
    return McpServerRecord(
        tenant=unescape(row["tenant"]),
        name=row["name"],
        transport=row["transport"],
        url=unescape_if_any(row["url"]),
        command=unescape_if_any(row["command"]),
        headers=orjson.loads(row["headers"]),
        registered=row["registered"],
        profile=orjson.loads(row["profile"]),
        tools=tuple(McpTool(**tool) for tool in orjson.loads(row["tools"])),
        refused=tuple(orjson.loads(row["refused"])),
        why_not=unescape_if_any(row["why_not"]),
        version=row["version"],
        created_at=row["created_at"],
        listed_at=row["listed_at"],
        digests_address=row["digests_address"],
    )


def _tools_text(server: McpServerRecord) -> str:
    return json_text([asdict(tool) for tool in server.tools])
