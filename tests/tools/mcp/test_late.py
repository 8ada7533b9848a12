"""Answers to calls that were cancelled: told of once, if they are results and in time (F33)."""

from __future__ import annotations

import asyncio
import sys
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
from mcp_types import ErrorData, JSONRPCError, JSONRPCNotification, JSONRPCRequest, JSONRPCResponse

from app.tools.mcp.late import IDEMPOTENCY_KEY, LATE_S, MAX_GIVEN_UP, GivenUpCalls
from tests.support.loopback import deaf_server
from tests.support.loopback.deaf_server import deafened
from tests.support.loopback.mcp_server import ToolServer, served_app, served_tools, tool
from tests.tools.mcp.servers import call, connections, listed, process, text_of, tiny, web
from tests.tools.played import FixedClock

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from app.log.servers import McpServerRecord
    from app.tools.mcp.connections import McpConnections
    from app.turn.ports import ToolOutcome

PATIENCE_S = 20
Told = tuple[str, str, "ToolOutcome"]


@asynccontextmanager
async def deaf(transport: str) -> AsyncIterator[tuple[McpConnections, McpServerRecord]]:
    """A server of the library that answers a call of `slow` when it is cancelled."""
    if transport == "stdio":
        async with connections(tiny=[sys.executable, deaf_server.__file__]) as known:
            yield known, process()
        return
    tools = ToolServer([tool("slow")])
    app = deafened(tools.server().streamable_http_app(), tools.hold("slow").set)
    async with served_app(app) as served, connections(served.host) as known:
        yield known, web(served.url)


# Answers a call with arguments once it is cancelled, by what no JSON can say, and others at once.
OVERFLOWS = """if message["params"]["arguments"]: held = ident
        else: say(id=ident, result={"content": [{"type": "text", "text": str(os.getpid())}]})
    elif method == "notifications/cancelled":
        say(id=held, result={"content": [], "structuredContent": {"n": float("inf")}})"""


async def given_up(known: McpConnections, server: McpServerRecord, name: str = "slow") -> None:
    """A call for which nobody waits any longer than it takes to be sent."""
    slow = (await listed(known, server))[name]
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.5):
            await call(known, server, slow, {"n": 1})


@pytest.mark.parametrize("transport", ["stdio", "http"])
async def test_f33_a_result_that_comes_after_the_call_was_cancelled_is_told_of(
    transport: str,
) -> None:
    heard: asyncio.Queue[Told] = asyncio.Queue()
    async with deaf(transport) as (known, server):
        known.on_late(lambda *late: heard.put_nowait(late))
        await given_up(known, server)
        tenant, key, outcome = await asyncio.wait_for(heard.get(), PATIENCE_S)
    assert (tenant, key) == ("acme", "run_1:call-7")
    assert text_of(outcome) == "slow {'n': 1}"
    assert heard.empty()


async def test_a_server_that_stops_when_it_is_told_to_says_nothing_late() -> None:
    """It answers with an error, which is no result, and the connection goes on."""
    tools, heard = ToolServer([tool("slow"), tool("next")]), list[Told]()
    tools.hold("slow")
    async with served_tools(tools) as served, connections(served.host) as known:
        known.on_late(lambda *late: heard.append(late))
        server = web(served.url)
        await given_up(known, server)
        await asyncio.wait_for(tools.ended.acquire(), PATIENCE_S)
        outcome = await call(known, server, (await listed(known, server))["next"])
    assert (tools.cancelled, text_of(outcome), heard) == (["slow"], "next {}", [])


async def test_a_late_answer_that_cannot_be_written_down_harms_no_other_call() -> None:
    heard: list[Told] = []
    async with connections(tiny=tiny(OVERFLOWS)) as known:
        known.on_late(lambda *late: heard.append(late))
        found = (await listed(known, process()))["tool"]
        before = text_of(await call(known, process(), found))
        await given_up(known, process(), "tool")
        after = text_of(await call(known, process(), found))
    assert (after, heard) == (before, [])


class Listener:
    """Given-up calls on a clock of the test's own, and what they told."""

    def __init__(self) -> None:
        self.clock = FixedClock()
        self.told: list[tuple[str, Any]] = []
        self.calls = GivenUpCalls(self.clock, lambda key, result: self.told.append((key, result)))

    def begin(self, ident: int) -> None:
        params = {"name": "t", "_meta": {IDEMPOTENCY_KEY: f"key-{ident}"}}
        self.calls.sent(JSONRPCRequest(jsonrpc="2.0", id=ident, method="tools/call", params=params))

    def cancel(self, ident: int) -> None:
        params = {"requestId": ident}
        self.calls.sent(
            JSONRPCNotification(jsonrpc="2.0", method="notifications/cancelled", params=params)
        )

    def answer(self, ident: int | str, result: dict[str, Any] | None = None) -> None:
        self.calls.received(JSONRPCResponse(jsonrpc="2.0", id=ident, result=result or {}))


def test_only_what_was_cancelled_is_late_and_only_once() -> None:
    listener = Listener()
    for ident in (1, 2):
        listener.begin(ident)
    listener.cancel(1)
    listener.cancel(99)
    listener.answer(2, {"of": 2})
    # Some servers send the number back as a text.
    listener.answer("1", {"of": 1})
    for ident in (1, 2, 99):
        listener.answer(ident)
    assert listener.told == [("key-1", {"of": 1})]


def test_a_call_that_was_answered_before_its_cancellation_was_not_late() -> None:
    listener = Listener()
    listener.begin(1)
    listener.answer(1)
    listener.cancel(1)
    listener.answer(1)
    assert listener.told == []


def test_an_error_is_no_result_and_ends_the_listening() -> None:
    listener = Listener()
    listener.begin(1)
    listener.cancel(1)
    stopped = ErrorData(code=-32800, message="Request cancelled")
    listener.calls.received(JSONRPCError(jsonrpc="2.0", id=1, error=stopped))
    listener.answer(1)
    assert listener.told == []


def test_after_five_minutes_nobody_listens() -> None:
    listener = Listener()
    for ident in (1, 2):
        listener.begin(ident)
        listener.cancel(ident)
    listener.clock.ms += int(LATE_S * 1000) - 1
    listener.answer(1)
    listener.clock.ms += 1
    listener.answer(2)
    assert listener.told == [("key-1", {})]


def test_of_many_the_latest_are_listened_for() -> None:
    listener = Listener()
    for ident in range(MAX_GIVEN_UP + 1):
        listener.begin(ident)
        listener.cancel(ident)
    for ident in range(MAX_GIVEN_UP + 1):
        listener.answer(ident)
    assert [key for key, _ in listener.told] == [f"key-{n}" for n in range(1, MAX_GIVEN_UP + 1)]
