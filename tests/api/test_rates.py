"""A principal who asks too often is told when to come back (service.md 1)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import httpx
import pytest
from prometheus_client import CollectorRegistry

from app.api.app import build_app
from app.service.rates import Rates
from tests.support.api_world import problem

if TYPE_CHECKING:
    from tests.support.api_world import ApiWorld

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
