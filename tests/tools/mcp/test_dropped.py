"""Connections that drop while a call is under way (field case F74)."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from typing_extensions import override

from app.tools.mcp.reach import GRACE_S, RETRY_S
from app.turn.clock import LoopClock
from tests.support.loopback.cut_wire import wire_to
from tests.support.loopback.mcp_server import Remembered, ToolServer, served_tools, tool
from tests.tools.mcp.servers import call, connections, listed, text_of, web

if TYPE_CHECKING:
    from collections.abc import Callable

    from app.tools.mcp.connections import McpConnections

PATIENCE_S = 30
# How a stream that can be taken up again begins: handshake, listing and call have one each.
PRIMED = b"retry: 10"


@dataclass
class WatchedClock(LoopClock):
    """Tells of every wait for a server that is gone, instead of waiting; else it stands still."""

    on_wait: Callable[[], None] = lambda: None
    waits: int = 0
    passed_ms: int = 0
    waited: asyncio.Event = field(default_factory=asyncio.Event)

    @override
    def now_ms(self) -> int:
        return self.passed_ms

    @override
    async def sleep(self, seconds: float) -> None:
        if seconds != RETRY_S:
            await super().sleep(seconds)
            return
        self.waits += 1
        self.on_wait()
        await asyncio.sleep(0)


async def test_f74_a_call_whose_connection_drops_and_returns_goes_on() -> None:
    tools, clock = ToolServer([tool("slow")]), WatchedClock()
    tools.hold("slow")
    async with (
        served_tools(tools, event_store=Remembered(), retry_interval=10) as served,
        wire_to(int(served.host.partition(":")[2])) as wire,
        connections(f"127.0.0.1:{wire.port}", clock=clock) as known,
    ):
        server = web(f"http://127.0.0.1:{wire.port}/mcp")
        slow = (await listed(known, server))["slow"]
        async with asyncio.TaskGroup() as group:
            calling = group.create_task(call(known, server, slow))
            await tools.began.acquire()
            await wire.has_brought(PRIMED, 3)
            clock.on_wait = lambda: wire.mend() if clock.waits == 3 else None
            wire.cut()
            tools.held["slow"].set()
            await asyncio.wait_for(calling, PATIENCE_S)
    assert text_of(calling.result()) == "slow {}"
    assert tools.count("slow") == 1
    assert clock.waits == 3


async def test_f74_after_the_grace_period_it_is_settled_with_unknown_effect() -> None:
    tools, clock = ToolServer([tool("slow")]), WatchedClock()
    tools.hold("slow")
    async with (
        served_tools(tools, event_store=Remembered(), retry_interval=10) as served,
        wire_to(int(served.host.partition(":")[2])) as wire,
        connections(f"127.0.0.1:{wire.port}", clock=clock) as known,
    ):
        server = web(f"http://127.0.0.1:{wire.port}/mcp")
        slow = (await listed(known, server))["slow"]
        async with asyncio.TaskGroup() as group:
            calling = group.create_task(call(known, server, slow))
            await tools.began.acquire()
            await wire.has_brought(PRIMED, 3)
            clock.on_wait = lambda: _pass(clock)
            wire.cut()
            await asyncio.wait_for(calling, PATIENCE_S)
        tools.held["slow"].set()
    assert calling.result().code == "outcome_unknown"
    assert tools.count("slow") == 1
    # Of the half-second steps of the grace period, none is left out.
    assert clock.waits >= GRACE_S / RETRY_S


async def test_a_call_that_can_do_no_harm_is_sent_again() -> None:
    """Without anything that remembers the stream, only such a call survives its connection.

    The grace period begins when that drops, and not with the call.
    """
    tools, clock = ToolServer([tool("search")]), WatchedClock()
    tools.hold("search")
    async with (
        served_tools(tools) as served,
        wire_to(int(served.host.partition(":")[2])) as wire,
        connections(f"127.0.0.1:{wire.port}", clock=clock) as known,
    ):
        server = web(f"http://127.0.0.1:{wire.port}/mcp")
        search = (await listed(known, server))["search"]
        async with asyncio.TaskGroup() as group:
            calling = group.create_task(call(known, server, search, repeatable=True))
            await tools.began.acquire()
            _pass(clock, GRACE_S + 1)
            clock.on_wait = wire.mend
            wire.cut()
            tools.held["search"].set()
            await asyncio.wait_for(calling, PATIENCE_S)
    assert text_of(calling.result()) == "search {}"
    assert tools.count("search") == 2


async def test_a_call_that_may_not_be_repeated_is_not_sent_again_to_a_server_that_is_back() -> None:
    """F74: it may have had its effect, so there is nothing to wait for."""
    tools, clock = ToolServer([tool("pay")]), WatchedClock()
    tools.hold("pay")
    async with (
        served_tools(tools) as served,
        wire_to(int(served.host.partition(":")[2])) as wire,
        connections(f"127.0.0.1:{wire.port}", clock=clock) as known,
    ):
        server = web(f"http://127.0.0.1:{wire.port}/mcp")
        pay = (await listed(known, server))["pay"]
        async with asyncio.TaskGroup() as group:
            calling = group.create_task(call(known, server, pay))
            await tools.began.acquire()
            clock.on_wait = wire.mend
            wire.cut()
            tools.held["pay"].set()
            await asyncio.wait_for(calling, PATIENCE_S)
    assert calling.result().code == "outcome_unknown"
    assert tools.count("pay") == 1


async def test_a_call_that_was_never_sent_waits_for_a_server_that_is_away() -> None:
    tools, clock = ToolServer([tool("pay")]), WatchedClock()
    async with (
        served_tools(tools) as served,
        wire_to(int(served.host.partition(":")[2])) as wire,
        connections(f"127.0.0.1:{wire.port}", clock=clock) as known,
    ):
        server = web(f"http://127.0.0.1:{wire.port}/mcp")
        pay = (await listed(known, server))["pay"]
        _closed(known)
        wire.cut()
        clock.on_wait = wire.mend
        assert text_of(await asyncio.wait_for(call(known, server, pay), PATIENCE_S)) == "pay {}"
        _closed(known)
        wire.cut()
        clock.on_wait = lambda: _pass(clock, GRACE_S / 3)
        outcome = await asyncio.wait_for(call(known, server, pay), PATIENCE_S)
    assert outcome.code == "tool_failed"
    assert "nothing ran" in outcome.text
    assert tools.count("pay") == 1


def _pass(clock: WatchedClock, seconds: float = RETRY_S) -> None:
    clock.passed_ms += int(seconds * 1000)


def _closed(known: McpConnections) -> None:
    """The connection there was is over, as if its server had been away for long."""
    for connection in list(known._held):
        connection.retire()
