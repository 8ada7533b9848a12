"""Runs that nobody watches, as a client sees them (turn.md 7.5, service.md 6)."""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING, Any

import pytest
import pytest_asyncio

from tests.support.api.driver import ApiDriver, data_of

if TYPE_CHECKING:
    from tests.support.api.world import ApiWorld, Person

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.postgres]

WRITE = 'call files_write {"path":"a","content":"x"}\n---\nsay ok'
WRITTEN = '{"content":"x","path":"a"}'
POST = 'call http_post {"body":"{}","url":"https://127.0.0.1/orders"}\n---\nsay ok'
POSTED = '{"body":"{}","url":"https://127.0.0.1/orders"}'
REASON = "needs a person's consent: it can send data to an address the model chooses"


@pytest_asyncio.fixture(loop_scope="session")
async def alice(world: ApiWorld) -> Person:
    person = world.person()
    await person.agent(
        tools=["files_write", "http_post"], approval={"files_write": "ask", "http_post": "allow"}
    )
    return person


async def driven(world: ApiWorld, person: Person, agent: str, **request: Any) -> dict[str, Any]:
    return await ApiDriver.of(world).until_idle(person, await person.run(agent, **request))


async def types_of(person: Person, run: dict[str, Any]) -> list[str]:
    items = (await person.get(f"/v1/runs/{run['id']}/events?limit=1000")).json()["items"]
    return [event["type"] for event in items]


def digest(args: str) -> str:
    return sha256(args.encode()).hexdigest()


async def is_never_paused(person: Person, run: dict[str, Any]) -> bool:
    """Nobody is asked: not by the log, not by the list of approvals."""
    asked = await person.get(f"/v1/approvals?run_id={run['id']}")
    assert asked.json()["items"] == []
    return not {"approval.requested", "run.paused"} & set(await types_of(person, run))


async def test_t107_t108_the_ordinary_rule_refuses_without_a_reason(
    world: ApiWorld, alice: Person
) -> None:
    run = await driven(world, alice, "helper", input=WRITE, unattended=True)
    assert (run["status"], run["unattended"]) == ("completed", True)
    assert await data_of(alice, run, "call.denied_unattended") == [
        {
            "call_id": "call_1_1_0",
            "tool": "files_write",
            "args_sha256": digest(WRITTEN),
            "reason": "",
            "missing": [],
        }
    ]
    [settled] = await data_of(alice, run, "tool.settled")
    assert (settled["call_id"], settled["outcome"]) == ("call_1_1_0", "unattended_denied")
    assert await data_of(alice, run, "tool.started") == []
    assert await is_never_paused(alice, run)


async def test_t107_t108_what_taint_took_away_is_named_in_kebab_case(
    world: ApiWorld, alice: Person
) -> None:
    """The caller's memory comes from elsewhere, so the run is tainted from its first step."""
    run = await driven(
        world, alice, "helper", input=POST, caller_memory="from elsewhere", unattended=True
    )
    assert (run["status"], run["tainted"]) == ("completed", True)
    [denied] = await data_of(alice, run, "call.denied_unattended")
    assert denied == {
        "call_id": "call_1_1_0",
        "tool": "http_post",
        "args_sha256": digest(POSTED),
        "reason": denied["reason"],
        "missing": ["arbitrary-egress", "mutate-external"],
    }
    assert REASON in denied["reason"]
    assert await is_never_paused(alice, run)


async def test_t130_the_worker_of_a_run_nobody_watches_is_refused_as_well(
    world: ApiWorld, alice: Person
) -> None:
    await alice.agent(
        "scribe",
        instructions=f"#script\n{WRITE}",
        tools=["files_write"],
        approval={"files_write": "ask"},
    )
    await alice.agent("boss", tools=[], delegates=[{"agent": "scribe"}])
    delegation = 'call __delegate_to {"target_agent_id":"scribe","task":"write"}\n---\nsay ok'
    run = await driven(world, alice, "boss", input=delegation, unattended=True)
    assert run["status"] == "completed"
    [denied] = await data_of(alice, run, "call.denied_unattended")
    assert denied["worker"] == {"call_id": "call_1_1_0", "agent": "scribe"}
    assert (denied["tool"], denied["args_sha256"]) == ("files_write", digest(WRITTEN))
    assert (denied["reason"], denied["missing"]) == ("", [])
    [ended] = await data_of(alice, run, "delegate.completed")
    assert ended["succeeded"] is True
    assert await is_never_paused(alice, run)


async def test_t109_a_veto_is_no_denial_of_this_kind(world: ApiWorld, alice: Person) -> None:
    await alice.agent("barred", tools=["files_write"], approval={"files_write": "veto"})
    run = await driven(world, alice, "barred", input=WRITE, unattended=True)
    [settled] = await data_of(alice, run, "tool.settled")
    assert (run["status"], settled["outcome"]) == ("completed", "denied_by_policy")
    assert await data_of(alice, run, "call.denied_unattended") == []


async def test_t109_what_only_looks_like_a_trigger_pauses(world: ApiWorld) -> None:
    """Its principal, agent, key and metadata all say so, and the flag does not."""
    trigger = world.person("trigger:nightly")
    await trigger.agent("trigger-nightly", tools=["files_write"], approval={"files_write": "ask"})
    body = {
        "agent": "trigger-nightly",
        "input": WRITE,
        "metadata": {"trigger_id": "trig_1", "unattended": True},
    }
    created = await trigger.post("/v1/runs", body, Idempotency_Key="trigger-nightly-1")
    run = await ApiDriver.of(world).until_idle(trigger, created.json())
    assert (run["status"], run["unattended"]) == ("paused", False)
    assert [one["tool"] for one in run["pause"]["approvals"]] == ["files_write"]
    assert await data_of(trigger, run, "call.denied_unattended") == []
