"""Streams under way: readers that stop, leave or wait, and servers that say nothing."""

from __future__ import annotations

import asyncio

from app.providers.directory import ProviderDirectory
from app.providers.endpoint import Endpoint, Timeouts
from app.turn.ports import FailureKind
from tests.providers.played import NotedClock, reply
from tests.providers.vendors import CHAT, REQUEST, asking
from tests.support.loopback.model_servers import chat, chat_piece, model_server

HELLO = chat_piece({"content": "Hello"})
LONG = chat_piece({"content": "x" * 60_000})
PATIENCE_S = 20


async def test_a_reader_that_stops_stops_the_server() -> None:
    async with asking(CHAT, chat(HELLO, LONG, ending="flood")) as (provider, server):
        stream = provider.stream(REQUEST)
        await anext(stream)
        await asyncio.wait_for(server.blocked.wait(), PATIENCE_S)
        assert not server.left.is_set()
        await stream.aclose()
        await asyncio.wait_for(server.left.wait(), PATIENCE_S)


async def test_a_reader_that_leaves_closes_the_connection() -> None:
    async with asking(CHAT, chat(HELLO, ending="hang")) as (provider, server):
        stream = provider.stream(REQUEST)
        await anext(stream)
        await stream.aclose()
        await asyncio.wait_for(server.left.wait(), PATIENCE_S)


async def test_a_cancelled_reader_closes_the_connection() -> None:
    async with asking(CHAT, chat(HELLO, ending="hang")) as (provider, server):
        begun = asyncio.Event()

        async def read() -> None:
            async for _ in provider.stream(REQUEST):
                begun.set()

        async with asyncio.TaskGroup() as tasks:
            reading = tasks.create_task(read())
            await asyncio.wait_for(begun.wait(), PATIENCE_S)
            reading.cancel()
        await asyncio.wait_for(server.left.wait(), PATIENCE_S)


async def test_a_server_that_stalls_before_or_within_its_answer_times_out() -> None:
    for pieces, text in (((), ""), ((HELLO,), "Hello")):
        impatient = Timeouts(first_event_s=PATIENCE_S, stall_s=0.3)
        answer = chat(*pieces, ending="hang")
        async with asking(CHAT, answer, timeouts=impatient) as (provider, server):
            replied = await reply(provider, REQUEST)
            await asyncio.wait_for(server.left.wait(), PATIENCE_S)
        assert replied.text == text
        assert replied.error is not None
        assert replied.error.kind is FailureKind.TIMEOUT
        assert len(server.asked) == 1


async def test_a_first_piece_that_does_not_come_times_out() -> None:
    empty = chat_piece({"role": "assistant"})
    impatient = Timeouts(first_event_s=0.3, stall_s=PATIENCE_S)
    async with asking(CHAT, chat(empty, ending="hang"), timeouts=impatient) as (provider, _):
        replied = await reply(provider, REQUEST)
    assert replied.error is not None
    assert replied.error.kind is FailureKind.TIMEOUT


async def test_a_server_that_is_not_there_is_unavailable() -> None:
    async with model_server() as gone:
        endpoint = Endpoint(base_url=gone.url)
    directory = ProviderDirectory(NotedClock(), compatible={"local": endpoint})
    replied = await reply(directory.provider(CHAT), REQUEST)
    await directory.aclose()
    assert replied.error is not None
    assert replied.error.kind is FailureKind.UNAVAILABLE
