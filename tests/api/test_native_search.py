"""A search within the provider, from the agent's flag to the wire and the log (turn.md 7.4)."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from app.providers.directory import ProviderDirectory
from app.providers.endpoint import Endpoint
from tests.support.api.driver import ApiDriver, data_of
from tests.support.api.world import pointers, problem
from tests.support.clock import PlayedClock
from tests.support.loopback.model_servers import model_server
from tests.support.loopback.search_servers import (
    ASKING,
    CLAUDE,
    SAYING,
    SEARCHED,
    SILENT,
    is_offered,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.support.api.world import ApiWorld, Person
    from tests.support.loopback.model_servers import Answer, ModelServer

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.postgres]


@asynccontextmanager
async def asked(
    world: ApiWorld, alice: Person, model: str, *answers: Answer, **agent: Any
) -> AsyncIterator[tuple[dict[str, Any], ModelServer]]:
    """A run of an agent whose model is served here, driven until it waits or ends."""
    members: dict[str, Any] = {"native_search": True, "tools": ["clock_now"]}
    await alice.agent(**members | {"model": model} | agent)
    async with model_server(*answers) as server:
        places = {"openai": f"{server.url}/v1", "anthropic": server.url, "google": server.url}
        vendors = {vendor: Endpoint("key", place) for vendor, place in places.items()}
        models = ProviderDirectory(PlayedClock(), vendors=vendors)
        try:
            drives = ApiDriver.of(world, providers=models)
            yield await drives.until_idle(alice, await alice.run(input="what is new?")), server
        finally:
            await models.aclose()


@pytest.mark.parametrize("model", SEARCHED)
async def test_t93_t120_a_search_is_offered_until_what_it_found_taints(
    world: ApiWorld, model: str
) -> None:
    alice = world.person()
    tools = ["clock_now", "http_fetch"]
    answers = SEARCHED[model], ASKING[model]
    async with asked(world, alice, model, *answers, tools=tools) as (run, server):
        assert [is_offered(request.body) for request in server.asked] == [True, False]
    assert (run["status"], run["tainted"]) == ("paused", True)
    [item] = run["pause"]["approvals"]
    card = (await alice.get(f"/v1/approvals/{item['id']}")).json()
    assert card["missing_capabilities"] == ["arbitrary-egress"]
    steps = await data_of(alice, run, "step.started")
    assert [step["native_search"] for step in steps] == [True, False]
    events = (await alice.get(f"/v1/runs/{run['id']}/events?limit=1000")).json()["items"]
    replies = [event["trust"] for event in events if event["type"] == "message.assistant"]
    assert replies == ["quarantined_content", "unspecified"]


@pytest.mark.parametrize("model", SEARCHED)
async def test_t120_a_closing_completion_offers_neither_tools_nor_a_search(
    world: ApiWorld, model: str
) -> None:
    alice = world.person()
    answers = SEARCHED[model], SAYING[model]
    async with asked(world, alice, model, *answers, max_steps=1) as (run, server):
        _, closing = [request.body for request in server.asked]
    assert run["answer"]["answer"] == "bye"
    assert not is_offered(closing)


@pytest.mark.parametrize("model", SEARCHED)
async def test_t120_a_closing_completion_of_a_clean_context_offers_no_search_either(
    world: ApiWorld, model: str
) -> None:
    """The first reply says nothing and searches nothing, so that nothing is tainted."""
    alice = world.person()
    answers = SILENT[model], SAYING[model]
    async with asked(world, alice, model, *answers, max_steps=1) as (run, server):
        offered = [is_offered(request.body) for request in server.asked]
    assert (run["tainted"], offered) == (False, [True, False])


@pytest.mark.parametrize("model", SEARCHED)
@pytest.mark.parametrize(
    "agent",
    [{"native_search": False}, {"execution_ceiling": ["local-read"]}],
    ids=["not allowed", "outside the ceiling"],
)
async def test_t7_t120_no_request_offers_what_is_not_allowed(
    world: ApiWorld, model: str, agent: dict[str, Any]
) -> None:
    alice = world.person()
    async with asked(world, alice, model, SAYING[model], **agent) as (run, server):
        assert not is_offered(server.asked[0].body)
    [step] = await data_of(alice, run, "step.started")
    assert step["native_search"] is False


async def test_a_model_without_a_search_is_no_model_for_an_agent_that_wants_one(
    world: ApiWorld,
) -> None:
    body = {"model": "compatible:local", "native_search": True}
    answer = await world.person().put("/v1/agents/finder", body)
    assert pointers(problem(answer, 422, "agent.invalid")) == ["/model"]
    assert (await world.person().put("/v1/agents/finder", {**body, "model": CLAUDE})).is_success
