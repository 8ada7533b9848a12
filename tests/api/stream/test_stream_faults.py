"""What a stream does when the database or the service itself fails, or its client takes nothing."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from app.errors import StoreUnavailable
from tests.support.database.postgres import started, tool_completed

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.api.server import Served

pytestmark = pytest.mark.asyncio(loop_scope="session")

ADDRESS = "postgres://turngate:hunter2@db"


def failing(error: Exception) -> Callable[..., Any]:
    """A read that fails."""

    async def read(*_: object, **__: object) -> None:
        raise error

    return read


async def test_a_socket_that_cannot_read_the_log_is_closed_with_1013_and_a_safe_sentence(
    streaming: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    talk = await streaming.talk()
    away = failing(StoreUnavailable(f"no answer from {ADDRESS}"))
    monkeypatch.setattr("app.store.sessions.StoreSession.events", away)
    async with streaming.stream(talk.id) as client:
        assert await client.refused() == (1013, "unavailable")
    assert "hunter2" not in str(client.frames)


async def test_a_fault_closes_with_1011_and_says_nothing(
    streaming: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    talk = await streaming.talk()
    monkeypatch.setattr("app.store.sessions.StoreSession.events", failing(RuntimeError(ADDRESS)))
    async with streaming.stream(talk.id) as client:
        assert await client.closed() == 1011
    assert client.kinds == ["hello"]


async def test_an_event_stream_that_cannot_read_the_log_ends_and_one_that_has_not_begun_is_503(
    streaming: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    talk = await streaming.talk()
    path = f"/v1/conversations/{talk.id}/events"
    away = failing(StoreUnavailable("away"))
    async with streaming.http(Accept="text/event-stream") as http:
        monkeypatch.setattr("app.store.sessions.StoreSession.events", away)
        assert (await http.get(path)).text == "retry: 2000\n\n"
        monkeypatch.setattr("app.store.sessions.StoreSession.conversation", away)
        assert (await http.get(path)).status_code == 503


async def test_an_event_stream_whose_client_takes_nothing_is_given_up(
    streaming: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.api.stream.sse.SEND_S", 0.5)
    talk = await streaming.talk()
    run = await talk.ask()
    lease = await talk.claim()
    await talk.write(lease, started(run))
    path = f"/v1/runs/{run}/events"
    async with streaming.http(Accept="text/event-stream") as http, http.stream("GET", path):
        for _ in range(50):
            await talk.write(lease, *[tool_completed(run, "call", "x" * 60_000) for _ in range(5)])
        await asyncio.wait_for(streaming.edge.streams._empty.wait(), 20)
