"""A principal who asks too often is told when to come back, over HTTP and sockets alike."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import httpx
import pytest
from prometheus_client import CollectorRegistry

from app.api.app import build_app
from app.service.access.rates import Rates
from tests.support.api.server import served
from tests.support.api.world import problem
from tests.support.database.postgres import said, started

if TYPE_CHECKING:
    from app.store.open import Store
    from tests.support.api.world import ApiWorld

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_too_many_requests_are_refused_until_there_is_room(world: ApiWorld) -> None:
    rates = Rates(world.clock, per_minute=2)
    app = build_app(replace(world.edge, rates=rates, registry=CollectorRegistry()))
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://turngate.test") as http:
        limited = replace(world, http=http)
        alice, bob = limited.person(), limited.person("bob")
        assert (await alice.get("/v1/runs")).status_code == 200
        # What is refused for its form was asked all the same.
        problem(await alice.get("/v1/runs?limit=0"), 422, "request.invalid")
        answer = await alice.get("/v1/runs")
        problem(answer, 429, "rate.limited")
        assert answer.headers["retry-after"] == "30"
        assert (await bob.get("/v1/runs")).status_code == 200
        assert (await http.get("/healthz")).status_code == 200
        world.clock.step(30)
        assert (await alice.get("/v1/runs")).status_code == 200


async def test_what_is_asked_on_all_sockets_of_a_principal_counts_together(
    shared_store: Store, tenant: str
) -> None:
    """Two tokens, three pings and a request over HTTP are six."""
    async with served(shared_store, tenant, per_minute=6) as streaming:
        talk = await streaming.talk()
        async with streaming.stream(talk.id) as one, streaming.stream(talk.id) as two:
            for client in (one, two, one):
                await client.say("ping")
                await client.until("pong")
            async with streaming.http() as http:
                assert (await http.get("/v1/runs")).status_code == 200
                await two.say("ping")
                assert await two.refused() == (4429, "rate.limited")
                assert (await http.get("/v1/runs")).status_code == 429
            async with streaming.stream(talk.id) as three:
                assert await three.refused() == (4429, "rate.limited")
            other = streaming.token("boss", scopes=("admin",))
            async with streaming.stream(talk.id, token=other) as boss:
                await boss.until("live")
            # A socket that asks for nothing goes on, and at the pace the rest does.
            streaming.clock.step(10)
            await one.say("ping")
            await one.until("pong")


async def test_an_acknowledgement_is_paid_by_its_event_and_said_twice_by_the_client(
    shared_store: Store, tenant: str
) -> None:
    async with served(shared_store, tenant, per_minute=3) as streaming:
        talk = await streaming.talk()
        run = await talk.ask()
        lease = await talk.claim()
        await talk.write(lease, started(run), *[said(run, str(number)) for number in range(20)])
        async with streaming.stream(run) as client:
            await client.until("live")
            assert len(client.seqs) > 20
            for seq in client.seqs:
                await client.say("ack", seq=seq)
            await client.say("ping")
            await client.until("pong")
            for _ in range(2):
                await client.say("ack", seq=client.seqs[-1])
            assert await client.refused() == (4429, "rate.limited")
