"""MCP servers as strangers run them, on the library's own server side, over HTTP on a loopback.

`ToolServer` lists what a test says and counts its calls; `served_tools` puts it behind uvicorn.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import uvicorn
from mcp.server.lowlevel import Server
from mcp.server.streamable_http import EventMessage, EventStore
from mcp_types import (
    CallToolResult,
    JSONRPCMessage,
    ListToolsResult,
    TextContent,
    Tool,
    ToolAnnotations,
)
from typing_extensions import override

from app.cli.sockets import listening_socket

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from mcp.server.streamable_http import EventCallback
    from mcp_types import CallToolRequestParams
    from starlette.types import ASGIApp

ANY: dict[str, Any] = {"type": "object"}


def tool(name: str, description: str = "", *, schema: Any = ANY, **hints: bool) -> Tool:
    """A tool as a server declares it; hints by the names of the wire, in snake case."""
    annotations = ToolAnnotations(**{f"{hint}_hint": said for hint, said in hints.items()})
    return Tool(
        name=name,
        description=description or f"The tool {name}.",
        input_schema=schema,
        annotations=annotations if hints else None,
    )


@dataclass
class ToolServer:
    """Lists `tools`, and answers calls with their arguments unless `answers` says otherwise.

    Tools that are `held` wait for their event; `cancelled` are those whose wait was ended.
    """

    tools: list[Tool] = field(default_factory=list)
    calls: list[CallToolRequestParams] = field(default_factory=list)
    answers: dict[str, CallToolResult] = field(default_factory=dict)
    held: dict[str, asyncio.Event] = field(default_factory=dict)
    cancelled: list[str] = field(default_factory=list)
    began: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(0))
    ended: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(0))
    listings: int = 0
    page_size: int | None = None

    def count(self, name: str) -> int:
        """How often the tool ran."""
        return sum(call.name == name for call in self.calls)

    def hold(self, name: str) -> asyncio.Event:
        """Let the tool wait until the event is set."""
        self.held[name] = asyncio.Event()
        return self.held[name]

    def server(self) -> Server[Any]:
        """The library's server over these tools."""
        return Server("tools", on_list_tools=self._list, on_call_tool=self._call)

    async def _list(self, _ctx: Any, params: Any) -> ListToolsResult:
        self.listings += 1
        if self.page_size is None:
            return ListToolsResult(tools=self.tools)
        at = int(params.cursor) if params and params.cursor else 0
        end = at + self.page_size
        # A paginator of a hostile server never comes to its end.
        return ListToolsResult(tools=self.tools[at:end], next_cursor=str(end))

    async def _call(self, _ctx: Any, params: CallToolRequestParams) -> CallToolResult:
        self.calls.append(params)
        self.began.release()
        try:
            if (held := self.held.get(params.name)) is not None:
                await held.wait()
        except asyncio.CancelledError:
            self.cancelled.append(params.name)
            raise
        finally:
            self.ended.release()
        if (answer := self.answers.get(params.name)) is not None:
            return answer
        return CallToolResult(content=[TextContent(text=f"{params.name} {params.arguments}")])


class Remembered(EventStore):
    """The events of every stream, so that a dropped one can be taken up again."""

    def __init__(self) -> None:
        self._events: list[tuple[str, JSONRPCMessage | None]] = []

    @override
    async def store_event(self, stream_id: str, message: JSONRPCMessage | None) -> str:
        self._events.append((stream_id, message))
        return str(len(self._events))

    @override
    async def replay_events_after(
        self, last_event_id: str, send_callback: EventCallback
    ) -> str | None:
        at = int(last_event_id)
        stream = self._events[at - 1][0]
        for number, (of, message) in enumerate(self._events[at:], start=at + 1):
            if of == stream and message is not None:
                await send_callback(EventMessage(message, str(number)))
        return stream


@dataclass
class Served:
    """A listening server."""

    address: str

    @property
    def url(self) -> str:
        return f"{self.address}/mcp"

    @property
    def host(self) -> str:
        """`host:port`, as the allow list has it."""
        return self.address.removeprefix("http://")


@asynccontextmanager
async def served_tools(tools: ToolServer, **options: Any) -> AsyncIterator[Served]:
    """The server behind uvicorn, for the length of the block."""
    async with served_app(tools.server().streamable_http_app(**options)) as served:
        yield served


@asynccontextmanager
async def served_app(app: ASGIApp) -> AsyncIterator[Served]:
    """Any application behind uvicorn."""
    listener = listening_socket("127.0.0.1", 0)
    host, port = listener.getsockname()[:2]
    server = _QuietServer(uvicorn.Config(app, log_config=None, ws="none"))
    async with asyncio.TaskGroup() as group:
        serving = group.create_task(server.serve(sockets=[listener]))
        await server.is_up.wait()
        try:
            yield Served(f"http://{host}:{port}")
        finally:
            server.should_exit = server.force_exit = True
            await serving


class _QuietServer(uvicorn.Server):
    """Tells when it is up, and leaves the signals of the tests alone."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.is_up = asyncio.Event()

    @override
    async def startup(self, sockets: Any = None) -> None:
        await super().startup(sockets)
        self.is_up.set()

    @override
    def capture_signals(self) -> Any:
        return nullcontext()
