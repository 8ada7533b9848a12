"""An agent's dispatch rules on whole runs: denied, asked, rewritten, annotated, redacted."""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING, Any

import pytest

from app.service.refusals import DecisionEdit
from app.trust.statement import StatementKind, verify_signature
from tests.support.log.seals import SERVICE
from tests.support.played.recorded_script import results_in
from tests.support.service.house import House

if TYPE_CHECKING:
    from app.log.records import RunRecord

pytestmark = pytest.mark.postgres

PROGRAM = 'call charge {"to":"evil","n":1}\n---\nsay done'
EVIL = {"pointer": "/to", "pattern": "^evil$"}
PROPOSED = b'{"n":1,"to":"evil"}'
LEAKED = "sk-averysecretkey"


async def driven(house: House, *rules: dict[str, Any], program: str = PROGRAM) -> RunRecord:
    alice = await house.person()
    await house.agent(dispatch_rules=[{"tool": "charge"} | rule for rule in rules])
    return await house.drive(await alice.run(program))


async def only(house: House, run: RunRecord, event_type: str) -> dict[str, Any]:
    (data,) = await house.data(run, event_type)
    return data


async def test_t115_a_denied_call_asks_nobody_and_gives_its_reason(house: House) -> None:
    """T115."""
    run = await driven(house, {"action": "deny", "when": EVIL})
    assert (run.status, house.tools.count("charge")) == ("completed", 0)
    gated = await only(house, run, "call.gated")
    assert (gated["outcome"], gated["rule"]) == ("deny", "veto")
    assert gated["reason"].startswith("dispatch_rules/0: ")
    settled = await only(house, run, "tool.settled")
    assert (settled["outcome"], gated["reason"] in settled["result"]) == ("denied_by_policy", True)


async def test_a_call_that_the_condition_does_not_meet_runs(house: House) -> None:
    condition = {"pointer": "/to", "pattern": "good"}
    run = await driven(house, {"action": "deny", "when": condition})
    assert (run.status, house.tools.count("charge")) == ("completed", 1)


async def test_a_call_that_a_rule_asks_about_waits_for_a_person(house: House) -> None:
    run = await driven(house, {"action": "ask", "when": EVIL}, {"action": "rewrite", "set": {}})
    assert (run.status, house.tools.count("charge")) == ("paused", 0)
    gated = await only(house, run, "call.gated")
    assert (gated["outcome"], gated["rule"], gated["missing"]) == ("escalate", "consent", [])


async def test_t114_a_rewrite_is_signed_and_stands_before_the_start(house: House) -> None:
    """T114, I13: what runs is the recorded rewrite, and the transcript keeps the proposal."""
    run = await driven(house, {"action": "rewrite", "set": {"/to": "good"}})
    assert house.tools.args("charge") == ['{"n":1,"to":"good"}']
    types = await house.types(run)
    assert types.index("dispatch.mutated") < types.index("tool.started")
    after = sha256(b'{"n":1,"to":"good"}').hexdigest()
    started, gated = await only(house, run, "tool.started"), await only(house, run, "call.gated")
    assert started["args_sha256"] == after
    assert (gated["outcome"], gated["rule"]) == ("modify", "transform")
    mutated = await only(house, run, "dispatch.mutated")
    told = (mutated["kind"], mutated["rule"], mutated["original_sha256"], mutated["mutated_sha256"])
    assert told == (
        "input_rewrite",
        "dispatch_rules/0",
        sha256(PROPOSED).hexdigest(),
        after,
    )
    assert await holds(house, run)


async def holds(house: House, run: RunRecord) -> bool:
    """Whether the one mutation of a run is signed with the service's key, field by field."""
    (event,) = [one for one in await house.events(run) if one.type == "dispatch.mutated"]
    data = dict(event.data)
    signature, kid = data.pop("signature"), data.pop("kid")
    members = data | {
        "tenant": house.tenant,
        "conversation_id": run.conversation_id,
        "run_id": run.id,
        "turn_id": event.turn_id,
        "worker": "",
    }
    refused = verify_signature(
        StatementKind.DISPATCH_MUTATION,
        members,
        signature=signature,
        kid=kid,
        keys={SERVICE.public.thumbprint(): SERVICE.public},
    )
    return refused is None


async def test_an_escalated_call_drops_its_rewrite_and_the_card_shows_the_proposal(
    house: House,
) -> None:
    """T63: the person sees and signs the proposal, and exactly that runs."""
    alice = await house.person()
    rules = [{"tool": "mutate", "action": "rewrite", "set": {"/to": "good"}}]
    await house.agent(dispatch_rules=rules)
    run = await house.drive(await alice.run(PROGRAM.replace("charge", "mutate")))
    (asked,) = await house.pending(run)
    assert asked.card["args_canonical"].encode() == PROPOSED
    await alice.approve(asked)
    await house.drive(run)
    assert house.tools.args() == [PROPOSED.decode()]
    assert await house.data(run, "dispatch.mutated") == []


async def test_an_injected_text_follows_the_result(house: House) -> None:
    run = await driven(house, {"action": "inject", "text": "Mind the budget."})
    assert house.tools.args("charge") == [PROPOSED.decode()]
    last = house.script.requests[1].messages[-1]
    assert "Mind the budget." in str(last)
    gated = await only(house, run, "call.gated")
    assert (gated["outcome"], gated["rule"]) == ("inject_context", "transform")
    assert await holds(house, run)


async def test_an_injected_text_and_a_rewrite_outlive_the_process(house: House) -> None:
    """A second call pauses the run, so the next request is built by another turn from the log."""
    program = 'call charge {"n":1}\n---\ncall mutate {"n":2}\n---\nsay done'
    run = await driven(house, {"action": "inject", "text": "Mind the budget."}, program=program)
    assert run.status == "paused"
    (asked,) = await house.pending(run)
    again = House(house.store, house.tenant, tools=house.tools)
    await (await again.person()).approve(asked)
    await again.drive(run)
    assert "Mind the budget." in str(again.script.requests[-1].messages)
    assert str(again.script.requests[-1].messages).count("Mind the budget.") == 1


REDACT = {"action": "redact", "pattern": "sk-[a-z]+", "text": "[key]"}


async def everything_stored(house: House, run: RunRecord) -> str:
    """Every row that the database has of the run's conversation, private bytes included."""
    rows = await house.store.everyone.pool.fetch(
        "SELECT body, private, data::text FROM events WHERE conversation_id = $1",
        run.conversation_id,
    )
    return b"\n".join(
        part if isinstance(part, bytes) else (part or "").encode() for row in rows for part in row
    ).decode(errors="replace")


async def test_t113_what_was_redacted_is_nowhere(house: House) -> None:
    """T113: neither log nor artifact, nor what the model is sent."""
    house.tools.answers["charge"] = f'{{"key":"{LEAKED}"}}'
    run = await driven(house, REDACT)
    assert (await only(house, run, "tool.completed"))["result"] == '{"key":"[key]"}'
    assert results_in(house.script.requests[1].messages) == ['{"key":"[key]"}']
    assert LEAKED not in await everything_stored(house, run)
    mutated = await only(house, run, "dispatch.mutated")
    assert mutated["kind"] == "result_redaction"
    assert mutated["original_sha256"] == sha256(f'{{"key":"{LEAKED}"}}'.encode()).hexdigest()
    assert await holds(house, run)


async def test_t113_a_secret_beyond_the_size_cap_is_redacted_as_well(house: House) -> None:
    house.tools.answers["charge"] = f"{'x' * 70_000}{LEAKED}"
    run = await driven(house, REDACT)
    assert (await only(house, run, "tool.completed"))["truncated"] is True
    assert LEAKED not in await everything_stored(house, run)


async def test_an_approved_call_s_result_is_redacted_too(house: House) -> None:
    house.tools.answers["mutate"] = LEAKED
    alice = await house.person()
    await house.agent(dispatch_rules=[{"tool": "*"} | REDACT])
    run = await house.drive(await alice.run('call mutate {"n":1}\n---\nsay done'))
    await alice.approve((await house.pending(run))[0])
    run = await house.drive(run)
    assert (await only(house, run, "tool.completed"))["result"] == "[key]"
    assert LEAKED not in await everything_stored(house, run)


async def test_a_pattern_without_end_denies_the_call(house: House) -> None:
    slow = {"pointer": "/to", "pattern": "(a+)+$"}
    program = f'call charge {{"to":"{"a" * 5000}!"}}\n---\nsay done'
    run = await driven(house, {"action": "ask", "when": slow}, program=program)
    assert (run.status, house.tools.count("charge")) == ("completed", 0)
    settled = await only(house, run, "tool.settled")
    assert "dispatch_rules/0: the pattern took too long" in settled["result"]


async def test_a_pattern_without_end_withholds_the_result(house: House) -> None:
    house.tools.answers["charge"] = f"{LEAKED} {'a' * 5000}!"
    run = await driven(house, {"action": "redact", "pattern": "(a+)+$", "text": ""})
    failed = await only(house, run, "tool.failed")
    assert failed["code"] == "result_withheld"
    assert LEAKED not in await everything_stored(house, run)


async def approved(house: House, before: list[Any], after: list[Any] | None) -> RunRecord:
    """A run whose call was approved under some rules and is driven under others."""
    alice = await house.person()
    await house.agent(dispatch_rules=before)
    run = await house.drive(await alice.run('call mutate {"to":"evil"}\n---\nsay done'))
    await alice.approve((await house.pending(run))[0])
    if after is None:
        async with house.store.database.transaction(house.tenant) as tx:
            assert await tx.delete_agent("helper")
    else:
        await house.agent(dispatch_rules=after)
    return await house.drive(run)


DENY = {"tool": "mutate", "action": "deny", "when": EVIL}


async def test_t64_a_denial_that_came_after_the_approval_wins(house: House) -> None:
    """T64: refused, and recorded as a recheck."""
    run = await approved(house, [], [DENY])
    assert house.tools.count() == 0
    assert (await only(house, run, "policy.rechecked"))["reason"].startswith("dispatch_rules/0: ")


@pytest.mark.parametrize(
    "after",
    [
        [],
        [{"tool": "mutate", "action": "rewrite", "set": {"/to": "good"}}],
        [{"tool": "mutate", "action": "ask"}],
        [DENY | {"tool": "charge"}],
        None,
    ],
    ids=["none", "a rewrite", "a question", "another tool", "the agent is gone"],
)
async def test_t63_other_changes_leave_the_signed_call_as_it_is(
    house: House, after: list[Any] | None
) -> None:
    """T63."""
    await approved(house, [], after)
    assert house.tools.args() == ['{"to":"evil"}']


async def test_t64_a_denial_that_is_dropped_still_holds_for_the_run(house: House) -> None:
    """T64, I24: the run keeps the rules of its snapshot."""
    alice = await house.person()
    await house.agent(dispatch_rules=[DENY])
    run = await alice.run('call mutate {"to":"evil"}\n---\nsay done')
    await house.agent(dispatch_rules=[])
    run = await house.drive(run)
    assert (run.status, house.tools.count()) == ("completed", 0)


async def test_a_denial_refuses_the_edit_of_an_approver(house: House) -> None:
    """Turn.md 6.5: the argument-aware veto at intake."""
    alice = await house.person()
    await house.agent(dispatch_rules=[DENY])
    run = await house.drive(await alice.run('call mutate {"to":"good"}\n---\nsay done'))
    (asked,) = await house.pending(run)
    with pytest.raises(DecisionEdit, match="dispatch_rules/0"):
        await alice.approve(asked, override_args={"to": "evil"})
