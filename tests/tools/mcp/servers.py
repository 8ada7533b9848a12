"""Registered servers, calls of their tools, and small stdio servers for the tests of the client."""

from __future__ import annotations

import json
import sys
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from app.log.servers import McpServerRecord
from app.tools.http import system_resolve
from app.tools.mcp.connections import McpConnections
from app.turn.clock import LoopClock
from tests.tools.played import invocation

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable

    from app.log.servers import McpTool
    from app.tools.http import Resolve
    from app.turn.ports import Clock, ToolOutcome

NOON = datetime(2026, 11, 29, 12, tzinfo=UTC)
BASE = McpServerRecord(
    tenant="acme",
    name="github",
    transport="http",
    url=None,
    command=None,
    headers={},
    registered=False,
    profile={},
    created_at=NOON,
)

# A server in the fewest lines: it lists `tool`, and does what the test says when it is called.
TINY = """
import json, os, sys, time
schema = {"type": "object"}
def say(**message):
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + chr(10)); sys.stdout.flush()
for line in sys.stdin:
    message = json.loads(line)
    method, ident = message.get("method"), message.get("id")
    if method == "initialize":
        say(id=ident, result={"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
            "serverInfo": {"name": "tiny", "version": "1"}})
    elif method == "tools/list":
        tools = [{"name": "tool", "description": "It does.", "inputSchema": schema}]
        say(id=ident, result={"tools": tools})
    elif method == "tools/call":
        CALLED
"""
ANSWERS = """say(id=ident, result={"content": [{"type": "text", "text": str(os.getpid())}]})"""
DIES = "os._exit(1)"
TOO_LONG = """
        text = "x" * message["params"]["arguments"].get("size", 0) or str(os.getpid())
        say(id=ident, result={"content": [{"type": "text", "text": text}]})"""
FLOODS = """sys.stdout.write("x" * 6_000_000); sys.stdout.flush(); time.sleep(60)"""


def tiny(called: str = ANSWERS) -> list[str]:
    """The command line of a tiny server."""
    return [sys.executable, "-c", TINY.replace("CALLED", called)]


def web(url: str, **changed: Any) -> McpServerRecord:
    """A server at a URL."""
    return replace(BASE, url=url, **changed)


def process(command: str = "tiny", **changed: Any) -> McpServerRecord:
    """A server that is a process."""
    return replace(BASE, transport="stdio", command=command, **changed)


@asynccontextmanager
async def connections(
    *allow_hosts: str,
    clock: Clock | None = None,
    resolve: Resolve = system_resolve,
    **commands: list[str],
) -> AsyncIterator[McpConnections]:
    """Connections that reach the hosts and the commands, for the length of the block."""
    known = McpConnections(
        clock or LoopClock(), commands=commands, allow_hosts=allow_hosts, resolve=resolve
    )
    async with known.running():
        yield known


async def listed(known: McpConnections, server: McpServerRecord) -> dict[str, McpTool]:
    """The tools the server lists, by name; it must answer."""
    found = await known.look(server)
    assert found.why_not is None
    return {tool.name: tool for tool in found.tools}


async def call(
    known: McpConnections,
    server: McpServerRecord,
    tool: McpTool,
    args: dict[str, Any] | None = None,
    *,
    repeatable: bool = False,
) -> ToolOutcome:
    """One call of the tool."""
    made = invocation(f"{server.name}__{tool.name}", args or {})
    return await known.call(server, tool, made, repeatable=repeatable)


def text_of(outcome: ToolOutcome) -> str:
    """The text of a result that must be one."""
    assert outcome.code is None, outcome.text
    text: str = json.loads(outcome.text)["text"]
    return text


def names(tools: Iterable[McpTool]) -> list[str]:
    return [tool.name for tool in tools]
