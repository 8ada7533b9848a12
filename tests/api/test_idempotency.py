"""Idempotency keys over HTTP: the same request gets its first answer again (service.md 1)."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.api.world import api_world, pointers, problem

if TYPE_CHECKING:
    from app.store.open import Store
    from tests.support.api.world import ApiWorld, Person

pytestmark = pytest.mark.asyncio(loop_scope="session")

OPEN = {"title": "a", "metadata": {"n": 1}}


async def count_conversations(person: Person) -> int:
    return len((await person.get("/v1/conversations")).json()["items"])


async def test_the_same_request_gets_its_first_answer_again(world: ApiWorld) -> None:
    alice = world.person()
    await alice.agent()
    body = {"agent": "helper", "input": "say hi"}
    first = await alice.post("/v1/runs", body, Idempotency_Key="order-17")
    again = await alice.post("/v1/runs", body, Idempotency_Key="order-17")
    assert (again.status_code, again.content) == (first.status_code, first.content)
    assert again.headers["location"] == first.headers["location"]
    assert again.headers["idempotent-replayed"] == "true"
    assert "idempotent-replayed" not in first.headers
    assert len((await alice.get("/v1/runs")).json()["items"]) == 1


async def test_a_body_written_otherwise_is_the_same_request(world: ApiWorld) -> None:
    alice = world.person()
    first = await alice.post(
        "/v1/conversations", b'{"title":"a","metadata":{"n":1}}', Idempotency_Key="k"
    )
    again = await alice.post(
        "/v1/conversations", b'{ "metadata": {"n": 1.0},\n"title": "\\u0061" }', Idempotency_Key="k"
    )
    assert again.json() == first.json()
    assert await count_conversations(alice) == 1


@dataclass(frozen=True)
class Case:
    id: str
    method: str
    path: str
    body: Any
    headers: dict[str, str] = field(default_factory=dict)


OTHERS = [
    Case("another body", "POST", "/v1/conversations", {"title": "b"}),
    Case("another path", "POST", "/v1/keys", OPEN),
    Case("another method", "PUT", "/v1/agents/helper", {"model": "script"}),
    Case(
        "another media type",
        "POST",
        "/v1/conversations",
        OPEN,
        {"Content_Type": "application/json;charset=utf-8"},
    ),
    Case("another condition", "POST", "/v1/conversations", OPEN, {"If_Match": '"x"'}),
]


@pytest.mark.parametrize("case", OTHERS, ids=lambda case: case.id)
async def test_f90_another_meaning_is_never_answered_with_the_first(
    world: ApiWorld, case: Case
) -> None:
    alice = world.person()
    await alice.post("/v1/conversations", OPEN, Idempotency_Key="k")
    headers = {"Idempotency_Key": "k"} | case.headers
    answer = await alice.ask(case.method, case.path, case.body, **headers)
    problem(answer, 409, "idempotency.mismatch")


async def test_f90_another_principal_or_tenant_has_keys_of_their_own(world: ApiWorld) -> None:
    people = [
        world.person(),
        world.person("bob"),
        world.person(tenant=f"{world.tenant}-other"),
    ]
    answers = [
        await person.post("/v1/conversations", OPEN, Idempotency_Key="k") for person in people
    ]
    assert [answer.status_code for answer in answers] == [201, 201, 201]
    assert len({answer.json()["id"] for answer in answers}) == 3


async def test_a_failed_request_leaves_the_key_free(world: ApiWorld) -> None:
    alice = world.person()
    body = {"agent": "helper", "input": "say hi"}
    problem(await alice.post("/v1/runs", body, Idempotency_Key="k"), 422, "agent.unknown")
    await alice.agent()
    assert (await alice.post("/v1/runs", body, Idempotency_Key="k")).status_code == 201


async def test_a_key_is_looked_up_only_with_the_scope(world: ApiWorld) -> None:
    alice = world.person()
    await alice.post("/v1/conversations", OPEN, Idempotency_Key="k")
    narrow = world.person(scopes=("runs:read",))
    answer = await narrow.post("/v1/conversations", OPEN, Idempotency_Key="k")
    problem(answer, 403, "auth.scope")


@pytest.mark.parametrize("key", ["", "x" * 256, "a\x7fb"])
async def test_a_key_that_is_none_is_refused(world: ApiWorld, key: str) -> None:
    answer = await world.person().post("/v1/conversations", OPEN, Idempotency_Key=key)
    assert pointers(problem(answer, 422, "request.invalid")) == ["/header/Idempotency-Key"]


async def test_two_keys_are_refused(world: ApiWorld) -> None:
    headers = [
        ("Authorization", f"Bearer {world.person().token}"),
        ("Content-Type", "application/json"),
        ("Idempotency-Key", "a"),
        ("Idempotency-Key", "b"),
    ]
    answer = await world.http.post("/v1/conversations", content=b"{}", headers=headers)
    problem(answer, 422, "request.invalid")


async def test_every_kind_of_answer_comes_again(world: ApiWorld) -> None:
    alice = world.person()
    saved = await alice.put("/v1/agents/helper", {"model": "script"}, Idempotency_Key="a")
    again = await alice.put("/v1/agents/helper", {"model": "script"}, Idempotency_Key="a")
    assert (again.status_code, again.headers["etag"]) == (201, saved.headers["etag"])
    for _ in range(2):
        gone = await alice.delete("/v1/agents/helper", Idempotency_Key="b")
        assert (gone.status_code, gone.content) == (204, b"")


async def test_twenty_concurrent_senders_on_two_applications_create_one(
    world: ApiWorld, shared_store: Store
) -> None:
    async with api_world(shared_store) as other:
        alice = world.person()
        there = other.person(tenant=world.tenant)
        answers = await asyncio.gather(
            *(
                person.post("/v1/conversations", OPEN, Idempotency_Key="k")
                for person in [alice, there] * 10
            )
        )
    assert {answer.status_code for answer in answers} == {201}
    assert len({answer.json()["id"] for answer in answers}) == 1
    assert sum("idempotent-replayed" in answer.headers for answer in answers) == 19
