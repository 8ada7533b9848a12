"""What a server gets to see, and where it may be: its own headers, an address that was judged."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from mcp.server.transport_security import TransportSecuritySettings

from tests.support.loopback.mcp_server import ToolServer, served_app, served_tools, tool
from tests.tools.mcp.servers import call, connections, listed, process, text_of, tiny, web

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    import pytest
    from starlette.types import Receive, Scope, Send

    from tests.support.loopback.mcp_server import Served

# Any host is served, so that only the client's own judgement keeps it away.
OPEN = TransportSecuritySettings(enable_dns_rebinding_protection=False)
ENVIRONMENT = """say(id=ident, result={"content": [
            {"type": "text", "text": json.dumps(dict(os.environ))}]})"""


async def test_a_process_has_nothing_of_the_service_s_environment_but_where_it_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TURNGATE_OPENAI_API_KEY", "sk-hidden")
    monkeypatch.setenv("PGPASSWORD", "hidden as well")
    async with connections(tiny=tiny(ENVIRONMENT)) as known:
        found = await listed(known, process())
        environment = json.loads(text_of(await call(known, process(), found["tool"])))
    # The interpreter adds LC_CTYPE by itself.
    assert environment.keys() <= {"HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER", "LC_CTYPE"}


async def test_f103_a_name_that_leads_inwards_once_it_was_judged_is_not_connected_to() -> None:
    """Every request is judged by what the name resolves to then."""
    asked: list[str] = []

    async def changing(host: str, _port: int) -> Sequence[str]:
        asked.append(host)
        return ["93.184.215.14" if len(asked) == 1 else "127.0.0.1"]

    tools = ToolServer([tool("echo")])
    async with (
        served_tools(tools, transport_security=OPEN) as served,
        connections(resolve=changing) as known,
    ):
        found = await known.look(web(_named(served)))
    assert (found.why_not, tools.listings) == ("its server is not reachable", 0)
    assert len(asked) > 1


async def test_f103_what_is_dialled_is_the_address_that_was_judged() -> None:
    """Nobody but this resolver knows the name; the server is told it all the same."""

    async def here(_host: str, _port: int) -> Sequence[str]:
        return ["127.0.0.1"]

    tools, seen = ToolServer([tool("echo")]), list[dict[str, str]]()
    async with (
        _watched(tools, seen) as served,
        connections("tools.example", resolve=here) as known,
    ):
        server = web(_named(served))
        echo = (await listed(known, server))["echo"]
        assert text_of(await call(known, server, echo)) == "echo {}"
    assert {headers["host"].partition(":")[0] for headers in seen} == {"tools.example"}


async def test_each_server_gets_its_own_headers_and_no_other_s() -> None:
    first, second = list[dict[str, str]](), list[dict[str, str]]()
    async with (
        _watched(ToolServer([tool("echo")]), first) as one,
        _watched(ToolServer([tool("echo")]), second) as two,
        connections(one.host, two.host) as known,
    ):
        ours = web(one.url, headers={"Authorization": "Bearer one"})
        theirs = web(two.url, name="other", headers={"X-Key": "two"})
        for server in (ours, theirs, ours):
            echo = (await listed(known, server))["echo"]
            assert text_of(await call(known, server, echo)) == "echo {}"
    told = [
        {(each.get("authorization"), each.get("x-key")) for each in seen}
        for seen in (first, second)
    ]
    assert told == [{("Bearer one", None)}, {(None, "two")}]


def _named(served: Served) -> str:
    return served.url.replace("127.0.0.1", "tools.example")


@asynccontextmanager
async def _watched(tools: ToolServer, seen: list[dict[str, str]]) -> AsyncIterator[Served]:
    """The server, whose requests' headers are kept in `seen`."""
    inner = tools.server().streamable_http_app(transport_security=OPEN)

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            seen.append({name.decode(): value.decode() for name, value in scope["headers"]})
        await inner(scope, receive, send)

    async with served_app(app) as served:
        yield served
