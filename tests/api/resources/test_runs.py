"""Runs over HTTP: create, wait, read, list, cancel (service.md 4)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from app.log.envelope import NewEvent
from app.log.payload import UsageTotals
from app.log.runs import Envelope, RunCompleted
from app.store.open import Store
from tests.support.api.world import api_world, pointers, problem
from tests.support.database.postgres import Talk, completed, failed, started
from tests.support.log.seals import SEAL

if TYPE_CHECKING:
    from collections.abc import Sequence

    from app.log.envelope import Event
    from tests.support.api.world import ApiWorld

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_a_run_is_created_and_read_back(world: ApiWorld) -> None:
    alice = world.person()
    agent = (await alice.put("/v1/agents/helper", {"model": "script"})).json()
    answer = await alice.post(
        "/v1/runs", {"agent": "helper", "input": "say hi", "metadata": {"order": 17}}
    )
    assert answer.status_code == 201
    run = answer.json()
    assert answer.headers["location"] == f"/v1/runs/{run['id']}"
    assert run == {
        "id": run["id"],
        "conversation_id": run["conversation_id"],
        "agent": "helper",
        "agent_digest": agent["digest"],
        "principal": "alice",
        "status": "queued",
        "pause": None,
        "answer": None,
        "error": None,
        "usage": dict.fromkeys(
            (
                "input_tokens",
                "output_tokens",
                "total_tokens",
                "cached_input_tokens",
                "cache_creation_input_tokens",
                "tool_use_prompt_tokens",
                "reasoning_tokens",
            ),
            0,
        ),
        "steps": 0,
        "tainted": False,
        "unattended": False,
        "head_seq": 3,
        "created_at": "2026-11-29T12:00:00.000Z",
        "started_at": None,
        "ended_at": None,
        "metadata": {"order": 17},
    }
    assert (await alice.get(f"/v1/runs/{run['id']}")).json() == run


@pytest.mark.parametrize(
    ("member", "status", "code"),
    [
        ({"agent": "nobody"}, 422, "agent.unknown"),
        ({"attachments": [{"artifact_id": "art_1"}]}, 422, "attachment.unknown"),
        ({"conversation_id": "conv_0"}, 404, "not_found"),
        ({"input": []}, 422, "request.invalid"),
        ({"input": ""}, 422, "request.invalid"),
        ({"input": [{"type": "image", "url": "x"}]}, 422, "request.invalid"),
    ],
)
async def test_a_run_that_cannot_be_is_refused(
    world: ApiWorld, member: dict[str, Any], status: int, code: str
) -> None:
    alice = world.person()
    await alice.agent()
    answer = await alice.post("/v1/runs", {"agent": "helper", "input": "x"} | member)
    problem(answer, status, code)
    assert (await alice.get("/v1/runs")).json()["items"] == []


async def test_an_unattended_run_needs_a_scope_of_its_own(world: ApiWorld) -> None:
    await world.person().agent()
    narrow = world.person(scopes=("runs:write", "runs:read"))
    body = {"agent": "helper", "input": "x", "unattended": True}
    answer = await narrow.post("/v1/runs", body)
    assert problem(answer, 403, "auth.scope")["scope"] == "triggers:write"
    wide = world.person(scopes=("runs:write", "triggers:write"))
    assert (await wide.post("/v1/runs", body)).json()["unattended"] is True


async def test_a_principal_has_only_so_many_open_runs(shared_store: Store) -> None:
    async with api_world(shared_store, open_runs=2) as world:
        alice, bob = world.person(tenant="quota"), world.person("bob", tenant="quota")
        await alice.agent()
        await alice.run()
        second = await alice.run()
        body = {"agent": "helper", "input": "x"}
        full = await alice.post("/v1/runs", body)
        problem(full, 429, "quota.open_runs")
        assert int(full.headers["retry-after"]) > 0
        assert (await bob.post("/v1/runs", body)).status_code == 201
        await alice.post(f"/v1/runs/{second['id']}/cancel")
        assert (await alice.post("/v1/runs", body)).status_code == 201


async def test_two_processes_count_the_open_runs_together(
    shared_store: Store, dsn: str, tenant: str
) -> None:
    async with (
        Store.open(dsn, seal=SEAL, process="another-process-of-the-edge") as other_store,
        api_world(shared_store, open_runs=3) as one,
        api_world(other_store, open_runs=3) as other,
    ):
        alice, elsewhere = one.person(tenant=tenant), other.person(tenant=tenant)
        await alice.agent()
        body = {"agent": "helper", "input": "x"}
        sent = [person.post("/v1/runs", body) for person in (alice, elsewhere) * 5]
        answers = await asyncio.gather(*sent)
    assert sorted(answer.status_code for answer in answers) == [201] * 3 + [429] * 7
    assert {answer.json().get("code") for answer in answers} == {None, "quota.open_runs"}


async def test_runs_are_listed_newest_first_in_reach_and_by_filter(world: ApiWorld) -> None:
    alice, bob, boss = world.person(), world.person("bob"), world.person("boss", scopes=("admin",))
    await alice.agent("a")
    await alice.agent("b")
    one, two = await alice.run("a"), await alice.run("b")
    three = await bob.run("a")

    async def ids(person: Any, query: str = "") -> list[str]:
        return [run["id"] for run in (await person.get(f"/v1/runs{query}")).json()["items"]]

    assert await ids(alice) == [two["id"], one["id"]]
    assert await ids(bob) == [three["id"]]
    assert await ids(boss) == [three["id"], two["id"], one["id"]]
    assert await ids(alice, "?agent=a") == [one["id"]]
    assert await ids(alice, f"?conversation_id={two['conversation_id']}") == [two["id"]]
    assert await ids(alice, "?status=completed") == []
    assert await ids(boss, "?status=queued&agent=a") == [three["id"], one["id"]]


async def test_pages_of_runs_have_no_gap_and_no_duplicate(world: ApiWorld) -> None:
    alice = world.person()
    await alice.agent()
    made = [(await alice.run())["id"] for _ in range(5)]
    got, cursor = [], ""
    while True:
        page = (await alice.get(f"/v1/runs?limit=2{cursor}")).json()
        got += [run["id"] for run in page["items"]]
        if page["next_cursor"] is None:
            break
        cursor = f"&cursor={page['next_cursor']}"
        # What comes in meanwhile is newer than the cursor and shifts nothing.
        await alice.run()
    assert got == made[::-1]


async def test_a_cancelled_run_is_cancelled_again_and_an_ended_one_is_not(
    world: ApiWorld,
) -> None:
    alice = world.person()
    await alice.agent()
    run = await alice.run()
    for _ in range(2):
        answer = await alice.post(f"/v1/runs/{run['id']}/cancel")
        assert (answer.status_code, answer.json()["status"]) == (202, "cancelled")
    over = await alice.run()
    talk = Talk(world.store, world.tenant, over["conversation_id"])
    await talk.finish(await talk.claim(), started(over["id"]), completed(over["id"], "hi"))
    problem(await alice.post(f"/v1/runs/{over['id']}/cancel"), 409, "run.terminal")
    shown = (await alice.get(f"/v1/runs/{over['id']}")).json()
    assert shown["answer"] == {"answer": "hi", "finish_reason": "goal", "tool_calls_seen": 0}
    assert shown["ended_at"] is not None


async def test_a_failed_run_says_why(world: ApiWorld) -> None:
    alice = world.person()
    await alice.agent()
    run = await alice.run()
    talk = Talk(world.store, world.tenant, run["conversation_id"])
    await talk.finish(await talk.claim(), started(run["id"]), failed(run["id"], "no_path"))
    shown = (await alice.get(f"/v1/runs/{run['id']}")).json()
    assert shown["status"] == "failed"
    assert shown["error"] == {"code": "no_path", "message": "it did not work"}


async def test_whoever_prefers_to_wait_gets_the_settled_run(world: ApiWorld) -> None:
    alice = world.person()
    await alice.agent()
    conversation = (await alice.post("/v1/conversations", {})).json()["id"]
    body = {"agent": "helper", "input": "say hi", "conversation_id": conversation}
    talk = Talk(world.store, world.tenant, conversation)

    accepted = asyncio.Event()

    def heard(conversation_id: str, events: Sequence[Event]) -> None:
        if conversation_id == conversation:
            accepted.set()

    async def work() -> None:
        await accepted.wait()
        [run] = (await alice.get("/v1/runs")).json()["items"]
        run_id = run["id"]
        await talk.finish(await talk.claim(), started(run_id), completed(run_id))

    world.store.signals.on_commit(heard)
    answer, _ = await asyncio.gather(
        alice.post("/v1/runs", body, Prefer="wait=30", Idempotency_Key="k"), work()
    )
    assert answer.status_code == 201
    assert answer.json()["status"] == "completed"
    assert answer.headers["preference-applied"] == "wait=30"
    assert answer.headers["location"] == f"/v1/runs/{answer.json()['id']}"
    again = await alice.post("/v1/runs", body, Prefer="wait=30", Idempotency_Key="k")
    assert again.json() == answer.json()
    assert again.headers["idempotent-replayed"] == "true"


@pytest.mark.parametrize("prefer", ["wait=0", "wait=61", "wait=x", "wait=", "wait=-1", "wait=1.5"])
async def test_a_wait_that_cannot_be_is_refused(world: ApiWorld, prefer: str) -> None:
    alice = world.person()
    await alice.agent()
    answer = await alice.post("/v1/runs", {"agent": "helper", "input": "x"}, Prefer=prefer)
    assert pointers(problem(answer, 422, "request.invalid")) == ["/header/Prefer"]


@pytest.mark.parametrize("prefer", ["return=minimal", "respond-async", "await=7"])
async def test_another_preference_is_passed_over(world: ApiWorld, prefer: str) -> None:
    alice = world.person()
    await alice.agent()
    answer = await alice.post("/v1/runs", {"agent": "helper", "input": "x"}, Prefer=prefer)
    assert answer.status_code == 201
    assert "preference-applied" not in answer.headers


async def test_c55_what_was_answered_under_a_schema_is_sent_to_the_byte(world: ApiWorld) -> None:
    alice = world.person()
    await alice.agent()
    run = await alice.run()
    talk = Talk(world.store, world.tenant, run["conversation_id"])
    exact = '{ "z" : 1.0,\t"a":[1e3] }'
    await talk.finish(await talk.claim(), started(run["id"]), completed_with(run["id"], exact))
    for path in (f"/v1/runs/{run['id']}", "/v1/runs?limit=1"):
        body = (await alice.get(path)).content
        assert b'"answer_payload":' + exact.encode() + b"}" in body
    listed = (await alice.get("/v1/runs")).json()["items"][0]
    assert listed["answer"] == {
        "answer": exact,
        "finish_reason": "goal",
        "tool_calls_seen": 0,
        "answer_payload": {"z": 1.0, "a": [1000.0]},
    }


def completed_with(run_id: str, exact: str) -> NewEvent:
    answer = Envelope(
        answer=exact, finish_reason="goal", tool_calls_seen=0, answer_payload={"z": 1.0, "a": [1e3]}
    )
    return NewEvent(
        RunCompleted(answer=answer, ended_by="answer", usage=UsageTotals(), steps=1), run_id=run_id
    )
