"""What a socket may cost: how many, how fast, how much memory, and how they all end."""

from __future__ import annotations

import asyncio
import gc
import json
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest

from app.service.streams.use_cases import StreamLimits
from tests.support.api.mute_client import mute_client
from tests.support.api.server import served
from tests.support.database.postgres import cancelled, completed, said, started, tool_completed

if TYPE_CHECKING:
    from app.store.open import Store
    from tests.support.api.server import Served

pytestmark = pytest.mark.asyncio(loop_scope="session")

MIB = 1 << 20


async def test_a_principal_has_ten_streams_and_the_eleventh_is_closed_with_4429(
    streaming: Served,
) -> None:
    talk = await streaming.talk()
    async with AsyncExitStack() as opened:
        kept = [await opened.enter_async_context(streaming.stream(talk.id)) for _ in range(10)]
        for client in kept:
            await client.until("live")
        async with streaming.stream(talk.id) as extra:
            assert await extra.refused() == (4429, "rate.limited")
        async with streaming.http(Accept="text/event-stream") as http:
            refused = await http.get(f"/v1/conversations/{talk.id}/events")
            assert (refused.status_code, refused.json()["code"]) == (429, "rate.limited")
            assert "retry-after" in refused.headers
        other = streaming.token("boss", scopes=("admin",))
        async with streaming.stream(talk.id, token=other) as client:
            await client.until("live")
        await kept[0].say("ping")
        await kept[0].until("pong")
    async with streaming.stream(talk.id) as client:
        await client.until("live")


async def test_an_event_stream_takes_a_place_as_well(shared_store: Store, tenant: str) -> None:
    async with served(shared_store, tenant, limits=StreamLimits(10, 1)) as streaming:
        talk = await streaming.talk()
        path = f"/v1/conversations/{talk.id}/events"
        async with (
            streaming.http(Accept="text/event-stream") as http,
            http.stream("GET", path) as answer,
        ):
            assert answer.status_code == 200
            async with streaming.stream(talk.id) as client:
                assert (await client.refused())[0] == 4429


async def test_a_full_process_refuses_whoever_comes(shared_store: Store, tenant: str) -> None:
    async with served(shared_store, tenant, limits=StreamLimits(1, 1)) as streaming:
        talk = await streaming.talk()
        async with streaming.stream(talk.id) as kept:
            await kept.until("live")
            async with streaming.stream(talk.id, token=streaming.token("bob")) as extra:
                assert await extra.refused() == (4429, "rate.limited")


async def test_a_drain_closes_every_stream_with_1001(shared_store: Store, tenant: str) -> None:
    async with served(shared_store, tenant) as streaming:
        talk = await streaming.talk()
        path = f"/v1/conversations/{talk.id}/events"
        async with (
            streaming.stream(talk.id) as live,
            streaming.stream(talk.id, subscribe={}) as early,
            streaming.http(Accept="text/event-stream") as http,
            http.stream("GET", path) as answer,
        ):
            await live.until("live")
            await early.say("ping")
            await early.until("pong")
            await streaming.edge.streams.drain()
            assert await live.closed() == await early.closed() == 1001
            await answer.aread()
            with pytest.raises(httpx.HTTPStatusError, match="503"):
                (await http.get(path)).raise_for_status()


async def test_frames_beyond_fifty_a_second_have_to_wait(streaming: Served) -> None:
    """F70: a flood is read at its pace and kept nowhere."""
    talk = await streaming.talk()
    async with streaming.stream(talk.id) as client:
        await client.until("live")
        began = streaming.clock.monotonic()
        for _ in range(200):
            await client.say("ping")
        for _ in range(200):
            await client.until("pong")
        assert streaming.clock.monotonic() - began == pytest.approx((200 + 2 - 50) / 50)


async def test_whoever_reads_nothing_costs_little_is_closed_and_resumes_where_it_was(
    streaming: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.api.stream.socket.SEND_S", 1.0)
    monkeypatch.setattr("app.api.stream.socket.CLOSE_S", 0.1)
    talk = await streaming.talk()
    run = await talk.ask()
    lease = await talk.claim()
    await talk.write(lease, started(run))
    path, says = f"/v1/runs/{run}/stream", json.dumps({"type": "subscribe"})
    async with mute_client(streaming.address, path, token=streaming.token(), says=says) as mute:
        before = resident_bytes()
        for _ in range(100):
            await talk.write(lease, *[tool_completed(run, "call", "x" * 60_000) for _ in range(5)])
        assert resident_bytes() - before < 12 * MIB
        await asyncio.wait_for(streaming.edge.streams._empty.wait(), 10)
        # A close frame that got through is waited for: 10 s for the answer that never comes.
        assert b"run.created" in await asyncio.wait_for(mute.drain(), 30)
    await talk.request(cancelled(run))
    async with streaming.stream(run) as client:
        assert await client.closed() == 1000
    assert client.seqs == list(range(2, 505))


def resident_bytes() -> int:
    """What the process holds of the machine's memory."""
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


async def test_a_client_that_is_cut_off_again_and_again_still_reaches_the_end(
    streaming: Served,
) -> None:
    """F69: every connection brings something new."""
    talk = await streaming.talk()
    run = await talk.ask()
    lease = await talk.claim()
    await talk.write(lease, started(run))
    seen: list[int] = []
    for number in range(20):
        await talk.write(lease, said(run, str(number)))
        after = seen[-1] if seen else 0
        async with streaming.stream(run, subscribe={"after": after}) as client:
            await client.until("event")
            client.connection.transport.abort()
        seen += client.seqs
    await talk.finish(lease, completed(run))
    async with streaming.stream(run, subscribe={"after": seen[-1]}) as client:
        assert await client.closed() == 1000
    assert [*seen, *client.seqs] == list(range(2, 25))


async def test_a_long_text_is_cut_in_frames_and_whole_on_its_own(streaming: Served) -> None:
    talk = await streaming.talk()
    run = await talk.ask()
    long = "é" * 1_000_000
    await talk.request(started(run), tool_completed(run, "call", long), cancelled(run))
    async with streaming.stream(run) as client:
        event = (await client.until("tool.completed"))["event"]
        assert event["cut"] == ["/result"]
        assert long.startswith(event["data"]["result"])
    async with streaming.http() as http:
        whole = (await http.get(f"/v1/conversations/{talk.id}/events/{event['seq']}")).json()
    assert whole["data"]["result"] == long
    assert "cut" not in whole
