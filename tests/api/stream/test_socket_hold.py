"""Subscribers in lock-step: what `hold` means on a socket."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from tests.support.database.postgres import (
    approval_requested,
    completed,
    new_id,
    paused,
    said,
    started,
)

if TYPE_CHECKING:
    from app.log.records import Lease
    from tests.support.api.server import Served
    from tests.support.database.postgres import Talk

pytestmark = pytest.mark.asyncio(loop_scope="session")

HOLD = {"after": 0, "mode": "hold", "window": 1}


async def running(streaming: Served) -> tuple[Talk, str, Lease]:
    """A run that a worker has just taken up."""
    talk = await streaming.talk()
    run = await talk.ask()
    lease = await talk.claim()
    await talk.write(lease, started(run))
    return talk, run, lease


async def is_held(streaming: Served, run: str) -> bool:
    """Whether the run's writer would have to wait now."""
    try:
        async with asyncio.timeout(0.01):
            await streaming.holds.passable(run)
    except TimeoutError:
        return True
    return False


async def test_the_writer_waits_beyond_the_window_until_the_client_acknowledges(
    streaming: Served,
) -> None:
    talk, run, lease = await running(streaming)
    async with streaming.stream(run, subscribe=HOLD) as client:
        await client.until("live")
        await talk.write(lease, said(run, "a"))
        await client.until("text.delta")
        assert not await is_held(streaming, run)
        await talk.write(lease, said(run, "b"))
        await client.until("text.delta")
        assert await is_held(streaming, run)
        await client.say("ack", seq=client.had)
        async with asyncio.timeout(10):
            await streaming.holds.passable(run)
        assert "demoted" not in client.kinds


async def test_a_client_that_leaves_holds_nothing(streaming: Served) -> None:
    """T142."""
    talk, run, lease = await running(streaming)
    async with streaming.stream(run, subscribe=HOLD) as client:
        await client.until("live")
        await talk.write(lease, said(run, "a"), said(run, "b"))
        await client.until("text.delta")
        assert await is_held(streaming, run)
    async with asyncio.timeout(10):
        await streaming.holds.passable(run)


async def test_a_client_that_acknowledges_nothing_is_demoted_and_goes_on_reading(
    streaming: Served,
) -> None:
    talk, run, lease = await running(streaming)
    async with streaming.stream(run, subscribe=HOLD) as client:
        await client.until("live")
        await talk.write(lease, said(run, "a"), said(run, "b"))
        await client.until("text.delta")
        streaming.clock.step(30)
        await streaming.holds.passable(run)
        assert (await client.until("demoted"))["reason"] == "timeout"
        async with streaming.stream(run, subscribe=HOLD) as again:
            assert [(await again.hear())["type"] for _ in range(2)] == ["hello", "demoted"]
            assert again.frames[-1]["reason"] == "cooldown"
        await talk.write(lease, said(run, "c"))
        await client.until("text.delta")
        await client.say("ack", seq=client.had)
        await client.say("ping")
        await client.until("pong")


async def test_the_end_lets_a_client_in_lock_step_acknowledge_the_last_event(
    streaming: Served,
) -> None:
    talk, run, lease = await running(streaming)
    async with streaming.stream(run, subscribe=HOLD) as client:
        await client.until("live")
        await talk.finish(lease, completed(run))
        await client.until("run.completed")
        await client.say("ping")
        assert await client.hear() == {"type": "pong"}
        await client.say("ack", seq=client.had)
        assert await client.closed() == 1000
    assert client.kinds[-2:] == ["pong", "end"]


async def test_the_end_does_not_wait_for_long_for_a_client_that_acknowledges_nothing(
    streaming: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.service.streams.use_cases.LAST_ACK_S", 0.05)
    talk, run, lease = await running(streaming)
    async with streaming.stream(run, subscribe=HOLD) as client:
        await client.until("live")
        await talk.finish(lease, completed(run))
        assert await client.closed() == 1000
    assert client.kinds[-1] == "end"


async def test_whoever_may_only_read_is_demoted_right_after_the_hello(streaming: Served) -> None:
    talk, run, _ = await running(streaming)
    await talk.request(approval_requested(new_id("appr"), run, talk.id), paused(run))
    for token in (
        streaming.token(scopes=("runs:read",)),
        streaming.token("bob", roles=("approver",)),
        streaming.token("boss", scopes=("admin",)),
    ):
        async with streaming.stream(run, token=token, subscribe=HOLD) as client:
            assert (await client.hear())["type"] == "hello"
            assert await client.hear() == {"type": "demoted", "reason": "forbidden"}
            await client.until("run.paused")
