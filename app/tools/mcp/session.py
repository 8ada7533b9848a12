"""One open conversation with an MCP server, in our own words. All that needs the library is here.

A server gets no say beyond its answers: it is offered neither models, nor people, nor files, and
its answers are read and never cached.
"""

from __future__ import annotations

import sys
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import httpx2
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from mcp_types import (
    CONNECTION_CLOSED,
    PARSE_ERROR,
    CallToolRequest,
    CallToolRequestParams,
    CallToolResult,
    Implementation,
    ListToolsRequest,
    ListToolsResult,
    PaginatedRequestParams,
)
from pydantic import ValidationError

from app.log.servers import McpTool
from app.tools.mcp.http import CONNECT_S, MAX_ANSWER_S, NO_ANSWER, NOT_SENT, PinnedTransport
from app.tools.mcp.late import IDEMPOTENCY_KEY, GivenUpCalls, overheard
from app.tools.mcp.results import Answered, Lost, NotTaken, Refused
from app.tools.mcp.stdio import stdio_transport

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping, Sequence

    from mcp.client import Transport
    from mcp_types import Tool

    from app.log.servers import McpServerRecord
    from app.tools.mcp.reach import Web

MAX_PAGES: Final = 50
MAX_LISTED: Final = 1000
_UNHEARD: Final = frozenset({CONNECTION_CLOSED, NO_ANSWER, NOT_SENT})
_EXACT: Final = 2**53 - 1
_LARGEST: Final = int(sys.float_info.max)
_SESSION_OVER: Final = "Session terminated"
_HINTS: Final = {
    "read_only": "read_only_hint",
    "destructive": "destructive_hint",
    "idempotent": "idempotent_hint",
    "open_world": "open_world_hint",
}


class Session:
    """What is asked of a server. Any number of requests may be under way.

    Cancelling a request tells the server, where its protocol has a word for it.
    """

    def __init__(self, client: Client) -> None:
        self._client = client

    async def tools(self) -> list[McpTool]:
        """The tools as declared, nothing of it checked. Raises Lost, NotTaken and Refused."""
        found: list[McpTool] = []
        cursor = None
        for _ in range(MAX_PAGES):
            params = PaginatedRequestParams(cursor=cursor)
            page = await self._ask(ListToolsRequest(params=params), ListToolsResult)
            found.extend(_tool(tool) for tool in page.tools)
            cursor = page.next_cursor
            if not cursor:
                return found
            if len(found) > MAX_LISTED:
                break
        raise Refused(f"it lists more than {MAX_LISTED} tools, or more than {MAX_PAGES} pages")

    async def call(self, name: str, args: Mapping[str, Any], *, key: str) -> Answered:
        """The answer to one call of a tool. Raises Lost, NotTaken and Refused."""
        params = CallToolRequestParams(
            name=name, arguments=dict(args), _meta={IDEMPOTENCY_KEY: key}
        )
        return _answered(await self._ask(CallToolRequest(params=params), CallToolResult))

    async def _ask(self, request: Any, expected: Any) -> Any:
        try:
            return await self._client.session.send_request(request, expected)
        except MCPError as error:
            raise _meaning(error) from error
        except ValidationError as error:
            raise Refused("its answer is not one of the protocol") from error


@asynccontextmanager
async def conversation(
    server: McpServerRecord,
    *,
    command: Sequence[str],
    web: Web,
    ended: Callable[[], None],
    late: Callable[[str, Answered], None],
) -> AsyncIterator[Session]:
    """A conversation with a server, for the length of the block.

    A stdio server is the process of `command`; `ended` is called when that has closed its output,
    `late` with the idempotency key and the answer of a call that was cancelled before.
    """
    transport: Callable[[], Transport]
    calls = partial(GivenUpCalls, web.clock, partial(_answer_late, late))
    async with AsyncExitStack() as stack:
        if server.transport == "stdio":
            transport = partial(stdio_transport, command, ended)
        else:
            http = await stack.enter_async_context(_http_client(server.headers, web))
            # Whole answers are bounded, so the events that they come in need no bound of their own.
            transport = partial(
                streamable_http_client,
                server.url or "",
                http_client=http,
                max_sse_event_size=None,
            )
        try:
            # The older of the two protocols can take up a dropped stream, so it goes first.
            opening = _client(overheard(transport(), calls()), "legacy")
            client = await stack.enter_async_context(opening)
        except MCPError as error:
            if error.code in _UNHEARD:
                raise
            opening = _client(overheard(transport(), calls()), "auto")
            client = await stack.enter_async_context(opening)
        yield Session(client)


def _http_client(headers: Mapping[str, str], web: Web) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(
        transport=PinnedTransport(web),
        headers=dict(headers),
        timeout=httpx2.Timeout(CONNECT_S, read=MAX_ANSWER_S),
        trust_env=False,
    )


def _client(transport: Transport, mode: str) -> Client:
    info = Implementation(name="turngate", version="1")
    return Client(transport, client_info=info, cache=None, mode=mode)


def _answered(result: CallToolResult) -> Answered:
    blocks = [block.model_dump(mode="json", by_alias=True) for block in result.content]
    return Answered(blocks, result.structured_content, is_error=result.is_error)


def _answer_late(
    late: Callable[[str, Answered], None], key: str, result: Mapping[str, Any]
) -> None:
    # What is no result by the protocol, or says what no JSON can, is none: whoever waits for
    # another answer of this connection is not to suffer from it.
    with suppress(ValueError):
        late(key, _answered(CallToolResult.model_validate(result, by_name=False)))


def _tool(tool: Tool) -> McpTool:
    said = {} if tool.annotations is None else tool.annotations.model_dump()
    hints = {ours: said[theirs] for ours, theirs in _HINTS.items() if said.get(theirs) is not None}
    return McpTool(
        name=tool.name,
        description=tool.description or "",
        parameters=_as_doubles(tool.input_schema),
        hints=hints,
    )


def _as_doubles(value: Any) -> Any:
    """The value with its numbers as JSON readers agree on them: some bounds are those of int64.

    One that is beyond every double stays what it is, and is refused with its schema.
    """
    match value:
        case dict():
            return {name: _as_doubles(member) for name, member in value.items()}
        case list():
            return [_as_doubles(item) for item in value]
        case int() if _EXACT < abs(value) <= _LARGEST:
            return float(value)
        case _:
            return value


def _meaning(error: MCPError) -> Exception:
    """What an error of the library says of the request: lost, not taken, or refused."""
    match error.code:
        case _ if error.code in {CONNECTION_CLOSED, NO_ANSWER}:
            return Lost("the connection was lost")
        case _ if error.code == NOT_SENT or error.message == _SESSION_OVER:
            return NotTaken("the server is gone, or has forgotten the session")
        case _ if error.code == PARSE_ERROR:
            # The text quotes the answer, and may be as long as that.
            return Refused("its answer cannot be read; its effect may have happened")
        case _:
            return Refused(error.message)
