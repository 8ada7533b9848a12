"""MCP servers that do not stop when a call is cancelled: they answer it then, and not before.

`deafened` keeps the word of a cancellation from an application of the library; run as a program,
this is such a server on standard input and output, with one tool `slow`.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import anyio
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp_types import CallToolResult, JSONRPCNotification, ListToolsResult, TextContent, Tool

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

CANCELLED = "notifications/cancelled"


def deafened(app: ASGIApp, cancelled: Callable[[], None]) -> ASGIApp:
    """The application, which is never told of a cancellation; `cancelled` is."""

    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "POST":
            await app(scope, receive, send)
            return
        message = await receive()
        while message.get("more_body"):
            more = await receive()
            message = {**more, "body": message["body"] + more["body"]}
        if CANCELLED.encode() in message["body"]:
            cancelled()
            await send({"type": "http.response.start", "status": 202, "headers": []})
            await send({"type": "http.response.body", "body": b""})
            return
        first = [message]

        async def replayed() -> Message:
            return first.pop() if first else await receive()

        await app(scope, replayed, send)

    return serve


async def main() -> None:
    """Serve until the input ends."""
    cancelled = asyncio.Event()

    async def tools(_ctx: Any, _params: Any) -> ListToolsResult:
        return ListToolsResult(tools=[Tool(name="slow", input_schema={"type": "object"})])

    async def call(_ctx: Any, params: Any) -> CallToolResult:
        await cancelled.wait()
        return CallToolResult(content=[TextContent(text=f"{params.name} {params.arguments}")])

    server: Server[Any] = Server("deaf", on_list_tools=tools, on_call_tool=call)
    told, heard = anyio.create_memory_object_stream[Any](0)

    async def listen() -> None:
        async with told:
            async for item in received:
                message = getattr(item, "message", None)
                if isinstance(message, JSONRPCNotification) and message.method == CANCELLED:
                    cancelled.set()
                else:
                    await told.send(item)

    async with stdio_server() as (received, sent), asyncio.TaskGroup() as group:
        group.create_task(listen())
        await server.run(heard, sent, server.create_initialization_options())


if __name__ == "__main__":
    asyncio.run(main())
