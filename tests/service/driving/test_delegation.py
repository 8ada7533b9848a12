"""Delegations in a service: what the log tells, whose consent counts, what a worker may."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson
import pytest

from app.log.payload import UsageTotals
from app.log.queries import Page
from app.policy.taint import Trust
from app.service.refusals import DecisionApprover, DecisionBinding, NotFound
from app.store.log.rebuild import rebuild
from tests.service.deaths import other
from tests.service.driving.delegating import delegate, is_paired, staffed, worker_of
from tests.trust.signer import compact

if TYPE_CHECKING:
    from tests.support.service.house import House, Person

pytestmark = pytest.mark.postgres

POST = 'call mutate {"to":"a"}\n---\nsay posted'
EXECUTION = {"tool.started", "tool.completed"}
BOTH = f"{delegate('a')}\n{delegate('b')}\n---\nsay all done"


async def test_a_run_s_log_tells_what_its_worker_did(house: House) -> None:
    await staffed(house, "w", script="think hm\ncall read {}\nusage 5 7\n---\nsay 42\nusage 1 1")
    alice = await house.person()
    run = await alice.run(f"{delegate('w', 'add')}\nusage 10 0\n---\nsay so 42", agent="boss")
    ended = await house.drive(run)
    assert (ended.status, ended.steps) == ("completed", 2)
    assert ended.answer == {"answer": "so 42", "finish_reason": "goal", "tool_calls_seen": 0}
    assert ended.usage.total_tokens == 10 + 12 + 2
    events = await house.events(run)
    own = [event.type for event in events if worker_of(event) is None]
    started, completed = own.index("delegate.started"), own.index("delegate.completed")
    assert own[completed + 1] == "tool.completed"
    assert started < completed
    assert [e.data for e in events if e.type == "delegate.started"] == [
        {"call_id": "call_1_1_0", "agent": "w", "task": "add"}
    ]
    (data,) = await house.data(run, "delegate.completed")
    usage = {"input_tokens": 6, "output_tokens": 8, "total_tokens": 14}
    expected = UsageTotals(**usage).model_dump()
    assert data == {
        "call_id": "call_1_1_0",
        "agent": "w",
        "succeeded": True,
        "error": None,
        "usage": expected,
        "first_party": False,
        "tainted": False,
    }
    theirs = [event for event in events if worker_of(event) == "call_1_1_0"]
    assert [event.type for event in theirs if not event.type.endswith(".delta")] == [
        *("step.started", "message.assistant", "call.gated", "tool.started", "tool.completed"),
        *("step.completed", "step.started", "message.assistant", "step.completed"),
    ]
    assert {event.turn_id for event in theirs} == {f"{events[-1].turn_id}/call_1_1_0/1"}
    deltas = {e.data["text"]: e.data.get("worker") for e in events if e.type == "text.delta"}
    assert deltas["42"] == {"call_id": "call_1_1_0", "agent": "w"}
    assert await is_paired(house, run)


async def test_what_workers_said_is_no_part_of_the_conversation_s_history(house: House) -> None:
    await staffed(house, "w", script="call read {}\n---\nsay 42")
    alice = await house.person()
    run = await alice.run(f"{delegate('w')}\n---\nsay ok", agent="boss")
    await house.drive(run)
    again = await alice.run("say more", agent="boss", conversation_id=run.conversation_id)
    ended = await house.drive(again)
    assert (ended.status, ended.tainted) == ("completed", False)
    said = [str(message) for message in house.script.requests[-1].messages]
    assert len(said) == 5
    assert "42" in said[2]


async def test_a_worker_s_request_is_decided_on_the_root_run(house: House, dsn: str) -> None:
    """T128, F45, over two processes: the worker goes on where it paused, its sibling does not."""
    await staffed(house, "a", script=POST)
    await house.agent("b", instructions="#script\ncall charge {}\n---\nsay charged")
    await house.agent("boss", tools=[], delegates=[{"agent": "a"}, {"agent": "b"}])
    alice = await house.person()
    run = await alice.run(BOTH, agent="boss")
    paused = await house.drive(run)
    assert paused.status == "paused"
    (asked,) = await house.pending(run)
    assert (asked.run_id, asked.card["agent"]) == (run.id, "boss")
    assert asked.card["worker"] == {"call_id": "call_1_1_0", "agent": "a"}
    assert asked.card["risk"]["session_allowed"] is False
    (paused_item,) = paused.pending_approvals
    assert (paused_item.id, paused_item.call_id) == (asked.id, "call_1_1_0/call_1_1_0")
    kept = [e for e in await house.events(run) if e.type == "run.checkpointed"]
    assert [worker_of(event) for event in kept] == ["call_1_1_0", None]
    await alice.approve(asked)
    ended = await other(house).drive(run)
    assert (ended.status, house.tools.count("mutate"), house.tools.count("charge")) == (
        *("completed", 1),
        1,
    )
    assert len(await house.data(run, "delegate.started")) == 2
    assert len(await house.asked(run)) == 1
    assert await is_paired(house, run)
    assert await rebuild(dsn, conversation_id=run.conversation_id) == []


async def test_f29_one_id_goes_with_a_worker_s_call_from_its_request_to_its_result(
    house: House,
) -> None:
    await staffed(house, "w", script=POST)
    alice = await house.person()
    run = await alice.run(f"{delegate('w')}\n---\nsay ok", agent="boss")
    await house.drive(run)
    (asked,) = await house.pending(run)
    emitted = next(e for e in await house.events(run) if e.type == "message.assistant")
    (delegating,) = emitted.data["content"]
    assert delegating["call_id"] == "call_1_1_0"
    # A provider's ids repeat, so the turn tells the two calls apart.
    its_ids = {"turn_id": emitted.turn_id, "request_id": delegating["request_id"]}
    payload = orjson.loads(await alice.payload(asked.id, decision="approve"))
    with pytest.raises(DecisionBinding):
        await alice.post(asked.id, "approve", alice.sign(compact(payload | its_ids)))
    await alice.approve(asked)
    await house.drive(run)
    (requested,) = await house.data(run, "approval.requested")
    (decided,) = await house.data(run, "approval.decided")
    theirs = [e.data["call_id"] for e in await house.events(run) if e.type in EXECUTION]
    assert (requested["call_id"], decided["approval_id"]) == (asked.call_id, asked.id)
    assert asked.call_id == "call_1_1_0/call_1_1_0"
    assert theirs == [asked.call_id, asked.call_id, "call_1_1_0"]
    assert house.tools.calls[0].call_id == asked.call_id


async def test_of_three_workers_one_is_denied(house: House) -> None:
    """T129, F26."""
    await staffed(house, "a", "b", "c", script=POST)
    alice = await house.person()
    calls = "\n".join(delegate(name) for name in "abc")
    run = await alice.run(f"{calls}\n---\nsay ok", agent="boss")
    await house.drive(run)
    first, second, third = await house.pending(run)
    await alice.approve(third)
    await alice.deny(second)
    assert (await house.drive(run)).status == "paused"
    await alice.approve(first)
    ended = await house.drive(run)
    assert (ended.status, house.tools.count()) == ("completed", 2)
    settled = await house.data(run, "tool.settled")
    assert [(one["call_id"], one["outcome"]) for one in settled] == [
        ("call_1_1_1/call_1_1_0", "denied")
    ]
    assert len(await house.data(run, "delegate.completed")) == 3
    assert await is_paired(house, run)


async def test_an_unattended_run_has_unattended_workers(house: House) -> None:
    """T130."""
    await staffed(house, "w", script=POST)
    alice = await house.person(scopes={"runs:write", "triggers:write"})
    run = await alice.run(f"{delegate('w')}\n---\nsay ok", agent="boss", unattended=True)
    ended = await house.drive(run)
    assert (ended.status, house.tools.count(), await house.asked(run)) == ("completed", 0, [])
    (denied,) = await house.data(run, "call.denied_unattended")
    assert denied["worker"] == {"call_id": "call_1_1_0", "agent": "w"}


async def test_an_edit_of_a_worker_s_call_is_what_runs(house: House) -> None:
    await staffed(house, "w", script=POST)
    alice = await house.person()
    run = await alice.run(f"{delegate('w')}\n---\nsay ok", agent="boss")
    await house.drive(run)
    (asked,) = await house.pending(run)
    await alice.approve(asked, override_args={"to": "b"}, note="only b")
    assert (await house.drive(run)).status == "completed"
    assert house.tools.args() == ['{"to":"b"}']


async def test_whoever_decides_a_worker_s_call_satisfies_both_agents(house: House) -> None:
    """turn.md 6.6: roles of both, the larger count, no self-approval that either refuses."""
    policy: dict[str, Any] = {"roles": ["legal"], "allow_self": False, "count": 2}
    await house.agent("w", instructions=f"#script\n{POST}", approvers=policy, approval_ttl_s=60)
    await house.agent("boss", tools=[], delegates=[{"agent": "w"}])
    alice, legal = await house.person(), await house.person("bob", "legal")
    run = await alice.run(f"{delegate('w')}\n---\nsay ok", agent="boss")
    await house.drive(run)
    (asked,) = await house.pending(run)
    assert asked.card["required"] == {
        "count": 2,
        "assurance": "key",
        "roles": ["legal"],
        "allow_self": False,
        "also_roles": ["approver"],
    }
    with pytest.raises(DecisionApprover):
        await alice.approve(asked)
    with pytest.raises(NotFound):
        await legal.approve(asked)
    assert await _listed(legal) == []
    for name in ("carol", "dave"):
        both = await house.person(name, "legal", "approver")
        assert await _listed(both) == [asked.id]
        await both.approve(asked)
    assert (await house.drive(run)).status == "completed"


async def _listed(person: Person) -> list[str]:
    """The approvals that somebody finds in their list."""
    house, page = person.house, Page(limit=10)
    async with house.store.database.session(house.tenant) as session:
        found = await house.approvals.page(session, person.caller, page, {})
    return [asked.id for asked in found]


async def test_a_worker_that_met_untrusted_content_taints_its_parent(house: House) -> None:
    """T127."""
    await staffed(house, "w", script="call fetch {}\n---\nsay 42")
    alice = await house.person()
    run = await alice.run(f"{delegate('w')}\n---\nsay ok", agent="boss")
    ended = await house.drive(run)
    assert ended.tainted
    events = [event for event in await house.events(run) if worker_of(event) is None]
    (answer,) = [event for event in events if event.type == "tool.completed"]
    assert answer.trust is Trust.QUARANTINED_CONTENT
    steps = [event.data["tainted"] for event in events if event.type == "step.started"]
    assert steps == [False, True]


async def test_a_worker_begins_with_the_taint_of_the_conversation(house: House) -> None:
    """T127, F111: and what asks under taint asks in a worker."""
    await staffed(house, "w", script="call charge {}\n---\nsay 42")
    alice, bob = await house.person(), await house.person("bob")
    run = await alice.run("say hi", agent="boss")
    await house.drive(run)
    await house.share(run, "bob")
    said = f"{delegate('w')}\n---\nsay ok"
    again = await bob.run(said, agent="boss", conversation_id=run.conversation_id)
    assert (await house.drive(again)).status == "paused"
    (asked,) = await house.pending(again)
    assert asked.card["missing_capabilities"] == ["mutate-external"]
    assert asked.card["tainted_by"]


async def test_policy_that_was_tightened_since_the_run_began_binds_its_workers(
    house: House,
) -> None:
    """I24: of a worker's agent as it was and as it is, the stricter holds."""
    await staffed(house, "w", script="call charge {}\n---\nsay 42")
    alice = await house.person()
    run = await alice.run(f"{delegate('w')}\n---\nsay ok", agent="boss")
    await house.agent("w", approval={"charge": "veto"})
    await house.drive(run)
    (settled,) = await house.data(run, "tool.settled")
    assert (settled["outcome"], house.tools.count("charge")) == ("denied_by_policy", 0)


async def test_policy_that_was_loosened_since_the_run_began_does_not(house: House) -> None:
    await staffed(house, "w", script="call charge {}\n---\nsay 42", approval={"charge": "veto"})
    alice = await house.person()
    run = await alice.run(f"{delegate('w')}\n---\nsay ok", agent="boss")
    await house.agent("w", approval={})
    await house.drive(run)
    assert house.tools.count("charge") == 0


async def test_a_worker_may_do_nothing_that_its_parent_may_not(house: House) -> None:
    """F111."""
    await house.agent("w", instructions="#script\ncall charge {}\n---\nsay 42")
    await house.agent(
        "boss", tools=[], delegates=[{"agent": "w"}], execution_ceiling=["local-read"]
    )
    alice = await house.person()
    run = await alice.run(f"{delegate('w')}\n---\nsay ok", agent="boss")
    await house.drive(run)
    (settled,) = await house.data(run, "tool.settled")
    assert (settled["outcome"], house.tools.count("charge")) == ("outside_ceiling", 0)


async def test_an_agent_s_caps_hold(house: House) -> None:
    """T122 and T123, from the agent's document."""
    await staffed(house, "w", script="say 42", delegate_max_fanout=2, delegate_turn_budget=3)
    alice = await house.person()
    batch = "\n".join([delegate("w")] * 3)
    run = await alice.run(f"{batch}\n---\n{batch}\n---\nsay ok", agent="boss")
    await house.drive(run)
    outcomes = [one["outcome"] for one in await house.data(run, "tool.settled")]
    assert outcomes == [
        "delegate_fanout_exceeded",
        "delegate_budget_exceeded",
        "delegate_budget_exceeded",
    ]
    assert len(await house.data(run, "delegate.completed")) == 3


@pytest.mark.parametrize(
    ("cap", "outcome"),
    [
        ("delegate_max_fanout", "delegate_fanout_exceeded"),
        ("delegate_turn_budget", "delegate_budget_exceeded"),
    ],
)
async def test_a_cap_of_zero_lets_no_worker_begin(house: House, cap: str, outcome: str) -> None:
    await staffed(house, "w", script="say 42", **{cap: 0})
    alice = await house.person()
    run = await house.drive(await alice.run(f"{delegate('w')}\n---\nsay ok", agent="boss"))
    assert run.status == "completed"
    assert [one["outcome"] for one in await house.data(run, "tool.settled")] == [outcome]
    assert await house.data(run, "delegate.started") == []


async def test_a_deleted_worker_s_open_runs_go_on_under_its_snapshot(house: House) -> None:
    await staffed(house, "w", script=POST)
    alice = await house.person()
    run = await alice.run(f"{delegate('w')}\n---\nsay ok", agent="boss")
    await house.drive(run)
    async with house.store.database.transaction(house.tenant) as tx:
        assert await tx.delete_agent("w")
    await alice.approve((await house.pending(run))[0])
    assert (await house.drive(run)).status == "completed"
    assert house.tools.count() == 1


async def test_what_rules_change_in_a_worker_s_call_is_recorded_under_its_turn(
    house: House,
) -> None:
    """The statement is signed over that place, so it must be where the call is."""
    rules = [
        {"tool": "charge", "action": "rewrite", "set": {"/n": 2}},
        {"tool": "charge", "action": "redact", "pattern": "2", "text": "[n]"},
    ]
    script = 'call charge {"n":1}\n---\nsay done'
    await staffed(house, "w", script=script, dispatch_rules=rules)
    run = await (await house.person()).run(f"{delegate('w')}\n---\nsay ok", agent="boss")
    await house.drive(run)
    events = [one for one in await house.events(run) if worker_of(one) == "call_1_1_0"]
    turns = {one.turn_id for one in events if one.type == "tool.started"}
    changed = [one for one in events if one.type == "dispatch.mutated"]
    assert [one.data["kind"] for one in changed] == ["input_rewrite", "result_redaction"]
    assert {one.turn_id for one in changed} == turns
    assert house.tools.args("charge") == ['{"n":2}']
