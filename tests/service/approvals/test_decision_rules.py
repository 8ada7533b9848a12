"""Who decides how often, what a repeated decision is, and what a session decision covers."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from itertools import cycle
from typing import TYPE_CHECKING, Any

import orjson
import pytest

from app.log.queries import Page, Reach
from app.service.refusals import (
    ApprovalCancelled,
    ApprovalDecided,
    ApprovalExpired,
    ApprovalSuperseded,
    DecisionApprover,
    DecisionDuplicate,
    NotFound,
    RequestInvalid,
)
from tests.service.deaths import other
from tests.trust.signer import compact

if TYPE_CHECKING:
    from app.log.records import ApprovalRecord, RunRecord
    from tests.support.service.house import House, Person

pytestmark = pytest.mark.postgres


async def asked_by(
    house: House, program: str = 'call mutate {"n":1}\n---\nsay done', **agent: Any
) -> tuple[Person, RunRecord, list[ApprovalRecord]]:
    alice = await house.person()
    await house.agent(**agent)
    run = await house.drive(await alice.run(program))
    return alice, run, await house.pending(run)


async def test_t70_the_same_decision_again_is_stored_once_and_says_so(house: House) -> None:
    alice, run, (asked,) = await asked_by(house)
    jws = alice.sign(await alice.payload(asked.id, decision="approve"))
    assert (await alice.post(asked.id, "approve", jws)).persisted is True
    assert (await alice.post(asked.id, "approve", jws)).persisted is False
    await house.drive(run)
    again = await alice.post(asked.id, "approve", jws)
    assert (again.persisted, again.approval.status) == (False, "approved")
    assert len(await house.data(run, "approval.decided")) == 1
    assert house.tools.count() == 1


async def test_stored_bytes_pass_after_their_time(house: House) -> None:
    alice, _, (asked,) = await asked_by(house)
    jws = alice.sign(await alice.payload(asked.id, decision="approve"))
    await alice.post(asked.id, "approve", jws)
    await house.clock.let_pass(3600)
    assert (await alice.post(asked.id, "approve", jws)).persisted is False


async def test_another_payload_of_the_same_decision_changes_nothing(house: House) -> None:
    alice, run, (asked,) = await asked_by(house)
    await alice.approve(asked)
    assert (await alice.approve(asked)).persisted is False
    assert len(await house.data(run, "approval.decided")) == 1


async def test_f17_the_other_outcome_learns_who_decided_and_when(house: House) -> None:
    alice, _, (asked,) = await asked_by(house)
    await alice.approve(asked)
    with pytest.raises(ApprovalDecided) as caught:
        await alice.deny(asked)
    assert caught.value.members["decided"] == {
        "decision": "approve",
        "by": "alice",
        "at": "2026-11-29T12:00:00.000Z",
    }


async def test_another_edit_after_the_decision_is_another_outcome(house: House) -> None:
    alice, _, (asked,) = await asked_by(house)
    await alice.approve(asked)
    with pytest.raises(ApprovalDecided):
        await alice.approve(asked, override_args={"n": 2})


async def test_a_cancelled_approval_takes_no_decision(house: House) -> None:
    """F7."""
    alice, run, (asked,) = await asked_by(house)
    await alice.cancel(run)
    with pytest.raises(ApprovalCancelled):
        await alice.approve(asked)


async def test_an_approval_past_its_time_is_refused_before_the_sweep_marks_it(
    house: House,
) -> None:
    """T76: and after it, once the model has seen the denial."""
    alice, run, (asked,) = await asked_by(house, approval_ttl_s=60)
    await house.clock.let_pass(60)
    with pytest.raises(ApprovalExpired):
        await alice.approve(asked)
    await house.approvals.expire(house.tenant, asked.id)
    with pytest.raises(ApprovalExpired):
        await alice.approve(asked)
    await house.drive(run)
    with pytest.raises(ApprovalExpired):
        await alice.approve(asked)
    assert house.tools.count() == 0


async def test_t77_two_approvers_are_two_people(house: House) -> None:
    _, run, (asked,) = await asked_by(house, approvers={"count": 2})
    ann, ben = await house.person("ann", "approver"), await house.person("ben", "approver")
    first = await ann.approve(asked)
    assert (first.persisted, first.approval.status) == (True, "pending")
    assert (await ann.approve(asked)).persisted is False
    assert (await house.drive(run)).status == "paused"
    second = await ben.approve(asked)
    assert second.approval.status == "approved"
    assert (await house.drive(run)).status == "completed"
    collected = [(d["collected"], d["needed"]) for d in await house.data(run, "approval.decided")]
    assert collected == [(1, 2), (2, 2)]


async def test_t78_two_approvers_with_different_edits_do_not_add_up(house: House) -> None:
    _, run, (asked,) = await asked_by(house, approvers={"count": 2})
    ann, ben = await house.person("ann", "approver"), await house.person("ben", "approver")
    await ann.approve(asked, override_args={"n": 2})
    assert (await ben.approve(asked, override_args={"n": 3})).approval.status == "pending"
    carl = await house.person("carl", "approver")
    assert (await carl.approve(asked, override_args={"n": 3})).approval.status == "approved"
    await house.drive(run)
    assert house.tools.args() == ['{"n":3}']


async def test_an_approver_cannot_approve_twice_in_different_words(house: House) -> None:
    await asked_by(house, approvers={"count": 2})
    ann = await house.person("ann", "approver")
    (asked,) = await house.asked((await _runs(house))[0])
    await ann.approve(asked)
    with pytest.raises(DecisionDuplicate):
        await ann.approve(asked, override_args={"n": 2})


async def _runs(house: House) -> list[RunRecord]:
    async with house.store.database.session(house.tenant) as session:
        return await session.runs(Reach(None), Page(), filters={})


async def test_one_denial_decides_even_by_an_approver_who_approved(house: House) -> None:
    """T77."""
    _, run, (asked,) = await asked_by(house, approvers={"count": 2})
    ann = await house.person("ann", "approver")
    await ann.approve(asked)
    denied = await ann.deny(asked)
    assert (denied.persisted, denied.approval.status) == (True, "denied")
    await house.drive(run)
    assert house.tools.count() == 0


async def test_t75_a_reviewer_program_signs_its_fixed_reason(house: House) -> None:
    _, run, (asked,) = await asked_by(house, approvers={"programs": ["bot"], "allow_self": False})
    bot = await house.person("bot")
    with pytest.raises(DecisionApprover):
        await bot.approve(asked)
    await bot.approve(asked, reason="decided by a program")
    ((decision,),) = [one.decisions for one in await house.asked(run)]
    assert (decision.approver, decision.reason) == ("bot", "decided by a program")
    assert (await house.drive(run)).status == "completed"


async def test_t75_a_program_never_gives_what_is_never_granted(house: House) -> None:
    alice, run, (asked,) = await asked_by(
        house, "call share {}\n---\nsay done", approvers={"programs": ["bot"]}
    )
    assert asked.card["missing_capabilities"] == ["grant-access"]
    bot = await house.person("bot")
    with pytest.raises(DecisionApprover):
        await bot.approve(asked, reason="decided by a program")
    await alice.approve(asked)
    assert (await house.drive(run)).status == "completed"
    assert house.tools.count("share") == 1


async def test_f17_fifty_decisions_at_once_have_one_winner(house: House) -> None:
    """T71, F15, over two processes: one state change, and the tool runs at most once."""
    alice, run, (asked,) = await asked_by(house)
    verdicts = ["approve", "deny"] * 25
    elsewhere = replace(alice, house=other(house))
    texts = [(verdict, await alice.payload(asked.id, decision=verdict)) for verdict in verdicts]
    outcomes = await asyncio.gather(
        *(
            who.post(asked.id, verdict, who.sign(text))
            for (verdict, text), who in zip(texts, cycle((alice, elsewhere)), strict=False)
        ),
        return_exceptions=True,
    )
    won = [one for one in outcomes if not isinstance(one, BaseException) and one.persisted]
    lost = [one for one in outcomes if isinstance(one, BaseException)]
    assert len(won) == 1
    assert {type(one) for one in lost} == {ApprovalDecided}
    assert len(await house.data(run, "approval.resolved")) == 1
    await house.drive(run)
    assert house.tools.count() == (won[0].approval.status == "approved")


STAMPS = "\n".join(f'call stamp {{"n":{n}}}' for n in (1, 2, 3))


async def test_f32_a_session_decision_covers_the_others_that_wait(house: House) -> None:
    """F122, T102: decision and scope commit together."""
    alice, run, asked = await asked_by(house, f"{STAMPS}\ncall mutate {{}}\n---\nsay done")
    await alice.approve(asked[0], scope="session")
    statuses = [(one.card["tool"], one.status, one.resolved_by) for one in await house.asked(run)]
    assert statuses == [
        ("stamp", "approved", "decision"),
        ("stamp", "approved", "session"),
        ("stamp", "approved", "session"),
        ("mutate", "pending", None),
    ]
    assert (await house.drive(run)).status == "paused"
    await alice.approve(asked[3])
    run = await house.drive(run)
    assert run.status == "completed"
    assert sorted(house.tools.args("stamp")) == ['{"n":1}', '{"n":2}', '{"n":3}']
    covered = [started["covered_by"] for started in await house.data(run, "tool.started")]
    assert covered[:3] == [
        {"kind": "decision", "id": asked[0].id},
        {"kind": "session", "id": asked[0].id},
        {"kind": "session", "id": asked[0].id},
    ]
    resolved = [one["approval_id"] for one in await house.data(run, "approval.resolved")]
    assert sorted(resolved) == sorted(one.id for one in asked)


async def test_f122_the_next_call_of_the_kind_is_covered_at_once(house: House) -> None:
    """T97, F119: with any arguments, and in later runs of the conversation too."""
    program = 'call stamp {"n":1}\n---\ncall stamp {"n":2}\n---\nsay done'
    alice, run, (asked,) = await asked_by(house, program)
    await alice.approve(asked, scope="session")
    assert (await house.drive(run)).status == "completed"
    later = await alice.run(
        'call stamp {"n":3}\n---\nsay done', conversation_id=run.conversation_id
    )
    assert (await house.drive(later)).status == "completed"
    assert house.tools.args("stamp") == ['{"n":1}', '{"n":2}', '{"n":3}']


async def test_f118_a_session_approval_serves_nobody_else(house: House) -> None:
    """T100, F120: another principal asks, and so does another agent."""
    alice, run, (asked,) = await asked_by(house, "call stamp {}\n---\nsay done")
    await alice.approve(asked, scope="session")
    await house.drive(run)
    bob = await house.person("bob")
    await house.share(run, "bob")
    await house.agent("other")
    for who, agent in ((bob, "helper"), (alice, "other")):
        later = await who.run(
            "call stamp {}\n---\nsay done", agent=agent, conversation_id=run.conversation_id
        )
        assert (await house.drive(later)).status == "paused"
        await alice.cancel(later)


async def test_f16_a_changed_definition_inherits_no_session_approval(house: House) -> None:
    alice, run, (asked,) = await asked_by(house, "call stamp {}\n---\nsay done")
    await alice.approve(asked, scope="session")
    await house.drive(run)
    house.tools.described = " of another make"
    house.__post_init__()
    later = await alice.run("call stamp {}\n---\nsay done", conversation_id=run.conversation_id)
    assert (await house.drive(later)).status == "paused"


async def test_an_ended_session_approval_serves_no_more(house: House) -> None:
    alice, run, (asked,) = await asked_by(house, "call stamp {}\n---\nsay done")
    await alice.approve(asked, scope="session")
    await house.drive(run)
    async with house.store.database.transaction(house.tenant) as tx:
        await house.approvals.end_session_approval(tx, alice.caller, run.conversation_id, "stamp")
    later = await alice.run("call stamp {}\n---\nsay done", conversation_id=run.conversation_id)
    assert (await house.drive(later)).status == "paused"
    async with house.store.database.transaction(house.tenant) as tx:
        with pytest.raises(NotFound):
            await house.approvals.end_session_approval(
                tx, alice.caller, run.conversation_id, "stamp"
            )


async def test_f119_a_tool_that_is_not_idempotent_takes_no_session_decision(house: House) -> None:
    """T99."""
    alice, _, (asked,) = await asked_by(house)
    with pytest.raises(RequestInvalid) as caught:
        await alice.payload(asked.id, decision="approve", scope="session")
    assert caught.value.faults[0].pointer == "/scope"


async def test_a_client_may_build_the_payload_itself(house: House) -> None:
    alice, run, (asked,) = await asked_by(house)
    card = asked.card
    now = int(house.clock.now().timestamp())
    payload = {
        "v": 1,
        "typ": "turngate.decision",
        "tenant": house.tenant,
        "approval_id": asked.id,
        "run_id": run.id,
        "conversation_id": run.conversation_id,
        "turn_id": card["turn_id"],
        "request_id": "call_0_0",
        "tool": "mutate",
        "tool_definition_digest": card["tool_definition_digest"],
        "args_sha256": card["args_sha256"],
        "decision": "approve",
        "override_args": None,
        "note": None,
        "reason": None,
        "scope": "once",
        "covered_capabilities": [],
        "sandbox_mode": None,
        "approver": "alice",
        "nonce": "AAECAwQFBgcICQoLDA0ODw",
        "iat": now,
        "exp": now + 900,
    }
    assert (await alice.post(asked.id, "approve", alice.sign(compact(payload)))).persisted
    offered = orjson.loads(await alice.payload(asked.id, decision="approve"))
    assert offered.keys() == payload.keys()


async def test_a_superseded_approval_names_what_took_its_place(house: House) -> None:
    """T65: the required set grew after approval, so the call is asked again."""
    alice, run, (asked,) = await asked_by(house)
    await alice.approve(asked)
    await house.agent(grant_policy={"base": ["local-read"]})
    run = await house.drive(run)
    assert run.status == "paused"
    (anew,) = await house.pending(run)
    assert anew.card["missing_capabilities"] == ["fixed-connector-read", "mutate-external"]
    with pytest.raises(ApprovalSuperseded) as caught:
        await alice.deny(asked)
    assert caught.value.members == {"superseded_by": anew.id}
    await alice.approve(anew)
    assert (await house.drive(run)).status == "completed"
    assert house.tools.count() == 1
