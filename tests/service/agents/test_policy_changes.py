"""Policy that changes while a person thinks: tightening wins, loosening changes nothing (F12)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson
import pytest

from tests.support.service.house import House
from tests.support.service.house_tools import CountingTools

if TYPE_CHECKING:
    from app.log.records import RunRecord
    from tests.support.service.house import Person

pytestmark = pytest.mark.postgres

JOB = 'call mutate {"to":"a"}\n---\nsay done'


async def paused(house: House, program: str = JOB) -> tuple[Person, RunRecord]:
    alice = await house.person()
    await house.agent()
    return alice, await house.drive(await alice.run(program))


async def test_f12_a_veto_after_the_approval_wins(house: House) -> None:
    """T64, I24: refused with its reason, recorded."""
    alice, run = await paused(house)
    await alice.approve((await house.pending(run))[0])
    await house.agent(approval={"mutate": "veto"})
    run = await house.drive(run)
    assert run.status == "completed"
    assert house.tools.count() == 0
    (rechecked,) = await house.data(run, "policy.rechecked")
    assert rechecked["call_id"] == "call_1_1_0"
    (settled,) = await house.data(run, "tool.settled")
    assert settled["outcome"] == "denied_by_policy"
    assert rechecked["reason"] in orjson.loads(settled["result"])["error"]


@pytest.mark.parametrize(
    ("tightened", "outcome"),
    [
        ({"approval": {"stamp": "veto"}}, "denied_by_policy"),
        ({"execution_ceiling": ["local-read"]}, "outside_ceiling"),
    ],
)
async def test_f12_tightening_wins_over_a_session_approval_as_well(
    house: House, tightened: dict[str, Any], outcome: str
) -> None:
    """T64, I8: the call it answered is refused, and nobody is asked about it once more."""
    alice, run = await paused(house, "call stamp {}\ncall stamp {}\n---\nsay done")
    await alice.approve((await house.pending(run))[0], scope="session")
    await house.agent(**tightened)
    run = await house.drive(run)
    assert run.status == "completed"
    assert house.tools.count("stamp") == 0
    assert [one["outcome"] for one in await house.data(run, "tool.settled")] == [outcome] * 2
    assert len(await house.data(run, "policy.rechecked")) == 2
    assert len(await house.data(run, "approval.requested")) == 2


async def test_f12_a_narrower_ceiling_after_the_approval_wins(house: House) -> None:
    alice, run = await paused(house)
    await alice.approve((await house.pending(run))[0])
    await house.agent(execution_ceiling=["local-read"])
    run = await house.drive(run)
    assert house.tools.count() == 0
    assert [s["outcome"] for s in await house.data(run, "tool.settled")] == ["outside_ceiling"]
    assert len(await house.data(run, "policy.rechecked")) == 1


async def test_f12_a_pending_call_stays_pending_when_its_rule_is_dropped(house: House) -> None:
    _, run = await paused(house)
    await house.agent(approval={"mutate": "allow"})
    run = await house.drive(run)
    assert run.status == "paused"
    assert house.tools.count() == 0


async def test_f12_a_denied_call_stays_denied_when_its_rule_is_dropped(house: House) -> None:
    alice, run = await paused(house)
    await alice.deny((await house.pending(run))[0])
    await house.agent(approval={"mutate": "allow"})
    await house.drive(run)
    assert house.tools.count() == 0


async def test_a_run_keeps_the_snapshot_of_its_agent(house: House) -> None:
    """Instructions and tools are the run's own; only the gate looks at the present."""
    alice, run = await paused(house)
    await house.agent(instructions="#script\nsay never", tools=["read"])
    await alice.approve((await house.pending(run))[0])
    run = await house.drive(run)
    assert run.answer is not None
    assert run.answer["answer"] == "done"
    assert house.tools.count() == 1


@pytest.mark.parametrize(
    ("strict", "status"),
    [
        pytest.param({"grant_policy": {"base": ["local-read"]}}, "paused", id="base"),
        pytest.param({"execution_ceiling": ["local-read"]}, "completed", id="ceiling"),
        pytest.param({"approval": {"charge": "ask"}}, "paused", id="rule"),
    ],
)
async def test_what_was_loosened_since_a_run_was_created_is_not_loose_for_it(
    house: House, strict: dict[str, Any], status: str
) -> None:
    """I24: each part of the policy is the stricter of snapshot and present (service.md 3)."""
    await house.agent(**strict)
    run = await (await house.person()).run("call charge {}\n---\nsay done")
    await house.agent()
    assert (await house.drive(run)).status == status
    assert house.tools.count("charge") == 0


async def test_a_deleted_agent_s_run_goes_on(house: House) -> None:
    alice, run = await paused(house)
    async with house.store.database.transaction(house.tenant) as tx:
        await tx.delete_agent("helper")
    await alice.approve((await house.pending(run))[0])
    assert (await house.drive(run)).status == "completed"


async def test_f11_another_process_with_other_settings_asks_nothing_anew(
    house: House, tenant: str
) -> None:
    alice, run = await paused(house)
    await alice.approve((await house.pending(run))[0])
    tools = CountingTools()
    other = House(house.store, tenant, house.clock, tools, worker="worker-2", lease_s=5)
    run = await other.drive(run)
    assert run.status == "completed"
    assert (house.tools.count(), tools.count()) == (0, 1)
    assert len(await other.asked(run)) == 1


async def test_f16_a_changed_definition_inherits_no_pending_approval(house: House) -> None:
    """A decision is bound to the definition that was shown; the call is asked anew."""
    alice, run = await paused(house)
    (asked,) = await house.pending(run)
    house.tools.described = ", now with teeth"
    house.__post_init__()
    await alice.approve(asked)
    run = await house.drive(run)
    assert house.tools.count() == 0
    assert run.status == "paused"
    old, new = await house.asked(run)
    assert (old.status, old.superseded_by) == ("superseded", new.id)
    assert new.card["reason"].startswith("The definition of mutate has changed")
    await alice.approve(new)
    assert (await house.drive(run)).status == "completed"
    assert house.tools.count() == 1


async def test_t84_egress_under_taint_asks_and_names_what_tainted(house: House) -> None:
    alice, run = await paused(house, 'call fetch {}\n---\ncall fetch {"n":2}\n---\nsay done')
    assert run.status == "paused"
    (asked,) = await house.pending(run)
    assert asked.card["missing_capabilities"] == ["arbitrary-egress"]
    fetched = next(e.seq for e in await house.events(run) if e.type == "tool.completed")
    assert asked.card["tainted_by"] == [fetched]
    assert run.tainted is True
    await alice.approve(asked)
    assert (await house.drive(run)).status == "completed"


async def test_t91_another_speaker_taints_the_conversation(house: House) -> None:
    alice, run = await paused(house, "say hello")
    bob = await house.person("bob")
    await house.share(run, "bob")
    await house.drive(await bob.run("say hi", conversation_id=run.conversation_id))
    later = await alice.run("call fetch {}\n---\nsay done", conversation_id=run.conversation_id)
    assert (await house.drive(later)).status == "paused"


async def test_a_first_party_result_taints_nobody_in_a_later_run(house: House) -> None:
    _, run = await paused(house, "call read {}\n---\nsay done")
    alice = await house.person()
    later = await alice.run("call fetch {}\n---\nsay done", conversation_id=run.conversation_id)
    assert (await house.drive(later)).status == "completed"


async def test_a_denied_fetch_taints_nobody_in_a_later_run(house: House) -> None:
    """turn.md 5.5: a synthetic result is nothing that came from outside."""
    alice = await house.person()
    await house.agent(approval={"fetch": "ask"})
    run = await house.drive(await alice.run("call fetch {}\n---\nsay done"))
    await alice.deny((await house.pending(run))[0])
    await house.drive(run)
    await house.agent("other")
    later = await alice.run(
        "call fetch {}\n---\nsay done", agent="other", conversation_id=run.conversation_id
    )
    assert (await house.drive(later)).status == "completed"


# Every way to start a run at this version; a new one belongs here.
ENTRY_POINTS = {"attended": "paused", "unattended": "completed"}


@pytest.mark.parametrize("entry", ENTRY_POINTS)
async def test_f4_every_way_in_meets_the_same_gate(house: House, entry: str) -> None:
    """A signed decision, or the same rule's refusal where nobody can be asked."""
    await house.agent()
    alice = await house.person(scopes={"runs:write", "triggers:write"})
    run = await house.drive(await alice.run(JOB, unattended=entry == "unattended"))
    assert run.status == ENTRY_POINTS[entry]
    assert house.tools.count() == 0
    (gated,) = await house.data(run, "call.gated")
    assert (gated["outcome"], gated["rule"]) == ("escalate", "consent")


async def test_t107_where_nobody_is_present_consent_is_refused_and_the_run_ends(
    house: House,
) -> None:
    """F106."""
    await house.agent()
    alice = await house.person(
        scopes={"runs:read", "runs:write", "triggers:write", "approvals:decide"}
    )
    run = await house.drive(await alice.run(JOB, unattended=True))
    assert run.status == "completed"
    assert await house.asked(run) == []
    assert house.tools.count() == 0
    (denied,) = await house.data(run, "call.denied_unattended")
    assert (denied["tool"], denied["reason"], denied["missing"]) == ("mutate", "", [])
