"""Agents over HTTP (service.md 3)."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from app.log.queries import LogScope, audit_scope
from tests.support.api.world import pointers, problem

if TYPE_CHECKING:
    from tests.support.api.world import ApiWorld

pytestmark = pytest.mark.asyncio(loop_scope="session")

LEAST = {"model": "script"}


async def audited(world: ApiWorld) -> list[tuple[str, Any]]:
    """The tenant's own log without its seals: types and data."""
    async with world.store.database.session(world.tenant) as session:
        scope: LogScope = audit_scope(world.tenant)
        events = await session.events(scope, after=0, limit=100)
    return [(event.type, event.data) for event in events if event.type != "log.sealed"]


async def test_an_agent_is_created_replaced_read_and_deleted(world: ApiWorld) -> None:
    alice = world.person()
    made = await alice.put("/v1/agents/courier", {"model": "script", "tools": ["http_post"]})
    assert made.status_code == 201
    agent = made.json()
    assert made.headers["etag"] == f'"{agent["digest"]}"'
    assert (agent["name"], agent["tools"], agent["max_steps"]) == ("courier", ["http_post"], None)
    assert agent["created_at"] == "2026-11-29T12:00:00.000Z"
    replaced = await alice.put("/v1/agents/courier", LEAST)
    assert (replaced.status_code, replaced.json()["tools"]) == (200, [])
    assert (await alice.get("/v1/agents/courier")).json() == replaced.json()
    assert (await alice.delete("/v1/agents/courier")).status_code == 204
    problem(await alice.get("/v1/agents/courier"), 404, "not_found")
    problem(await alice.delete("/v1/agents/courier"), 404, "not_found")
    log = await audited(world)
    assert [kind for kind, _ in log] == ["agent.saved", "agent.saved", "agent.deleted"]
    assert log[0][1]["by"] == "alice"
    assert log[0][1]["resource"]["digest"] == agent["digest"]


@dataclass(frozen=True)
class Case:
    id: str
    if_match: str
    status: int


CONDITIONS = [
    Case("the agent as it is", '"{etag}"', 200),
    Case("one of several", '"x", "{etag}"', 200),
    Case("any that exists", "*", 200),
    Case("weakened on the way", 'W/"{etag}"', 200),
    Case("another", '"x"', 412),
]


@pytest.mark.parametrize("case", CONDITIONS, ids=lambda case: case.id)
async def test_a_condition_protects_an_edit(world: ApiWorld, case: Case) -> None:
    alice = world.person()
    digest = (await alice.put("/v1/agents/a", LEAST)).json()["digest"]
    condition = case.if_match.replace("{etag}", digest)
    answer = await alice.put("/v1/agents/a", {**LEAST, "max_steps": 3}, If_Match=condition)
    assert answer.status_code == case.status
    deleted = await alice.delete("/v1/agents/a", If_Match='"x"')
    problem(deleted, 412, "agent.changed")


async def test_a_condition_is_not_met_by_nothing(world: ApiWorld) -> None:
    answer = await world.person().put("/v1/agents/a", LEAST, If_Match="*")
    problem(answer, 412, "agent.changed")
    assert await audited(world) == []


async def test_a_condition_that_names_no_tag_is_refused(world: ApiWorld) -> None:
    answer = await world.person().put("/v1/agents/a", LEAST, If_Match="abc")
    assert pointers(problem(answer, 422, "request.invalid")) == ["/header/If-Match"]


async def test_of_two_edits_with_one_condition_one_wins(world: ApiWorld) -> None:
    alice = world.person()
    etag = (await alice.put("/v1/agents/a", LEAST)).headers["etag"]
    answers = await asyncio.gather(
        *(
            alice.put("/v1/agents/a", {**LEAST, "max_steps": steps}, If_Match=etag)
            for steps in range(1, 9)
        )
    )
    assert sorted(answer.status_code for answer in answers) == [200] + [412] * 7


@pytest.mark.parametrize("name", ["A", "-a", "a" * 64, "a.b", "a%20b"])
async def test_an_agent_cannot_have_any_name(world: ApiWorld, name: str) -> None:
    answer = await world.person().put(f"/v1/agents/{name}", LEAST)
    problem(answer, 422, "request.invalid")


async def test_what_does_not_hold_is_named(world: ApiWorld) -> None:
    body = {"model": "nobody:x", "tools": ["http_pst"], "delegates": [{"agent": "nobody"}]}
    found = problem(await world.person().put("/v1/agents/a", body), 422, "agent.invalid")
    assert pointers(found) == ["/model", "/tools/0", "/delegates/0/agent"]


async def test_a_delegate_must_exist_in_the_tenant(world: ApiWorld) -> None:
    alice, eve = world.person(), world.person(tenant=f"{world.tenant}-2")
    await alice.agent("researcher")
    body = {**LEAST, "delegates": [{"agent": "researcher"}]}
    assert (await alice.put("/v1/agents/boss", body)).status_code == 201
    found = problem(await eve.put("/v1/agents/boss", body), 422, "agent.invalid")
    assert pointers(found) == ["/delegates/0/agent"]


async def test_lowering_the_guard_needs_admin(world: ApiWorld) -> None:
    body = {**LEAST, "grant_policy": {"taint_resilient": ["mutate-external"]}}
    answer = await world.person().put("/v1/agents/a", body)
    assert problem(answer, 403, "auth.scope")["scope"] == "admin"
    boss = world.person("boss", scopes=("admin",))
    assert (await boss.put("/v1/agents/a", body)).status_code == 201


async def test_agents_are_listed_newest_first_by_pages(world: ApiWorld) -> None:
    alice = world.person()
    for name in ("b", "c", "a"):
        await alice.agent(name)
        world.clock.step(1)
    names, cursor = [], ""
    while True:
        page = (await alice.get(f"/v1/agents?limit=1{cursor}")).json()
        names += [agent["name"] for agent in page["items"]]
        if page["next_cursor"] is None:
            break
        cursor = f"&cursor={page['next_cursor']}"
    assert names == ["a", "c", "b"]


async def test_a_cursor_of_another_list_is_refused(world: ApiWorld) -> None:
    alice = world.person()
    for _ in range(2):
        await alice.post("/v1/conversations", {})
    cursor = (await alice.get("/v1/conversations?limit=1")).json()["next_cursor"]
    found = problem(await alice.get(f"/v1/agents?cursor={cursor}"), 422, "request.invalid")
    assert pointers(found) == ["/query/cursor"]
