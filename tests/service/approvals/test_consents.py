"""A stored decision is verified again before a turn uses it (turn.md 6.2)."""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING

import orjson
import pytest

from app.service.approvals.consents import consents
from tests.support.turn.tools import MemoryTools
from tests.trust.signer import Signer

if TYPE_CHECKING:
    from app.log.records import ApprovalRecord, RunRecord
    from tests.support.service.house import House

pytestmark = pytest.mark.postgres

JOB = 'call mutate {"n":1}\n---\nsay done'
STAMP = 'call stamp {"n":1}\n---\nsay done'


async def approved(house: House) -> RunRecord:
    """A paused run whose only approval has just been given."""
    alice = await house.person()
    await house.agent()
    run = await house.drive(await alice.run(JOB))
    await alice.approve((await house.pending(run))[0])
    return run


async def asked_anew(house: House, run: RunRecord) -> None:
    """Whatever the decision was worth, nothing ran, and a new request has taken its place."""
    run = await house.drive(run)
    assert run.status == "paused"
    assert house.tools.count() == 0
    old, new = await house.asked(run)
    assert (old.status, old.superseded_by, new.status) == ("superseded", new.id, "pending")


async def test_t67_a_decision_whose_key_was_swapped_authorises_nothing(house: House) -> None:
    run = await approved(house)
    await house.store.everyone.pool.execute(
        "UPDATE approver_keys SET public_jwk = $1 WHERE tenant = $2",
        orjson.dumps(Signer.of(4711).jwk).decode(),
        house.tenant,
    )
    await asked_anew(house, run)


async def test_t66_a_decision_whose_bytes_were_altered_authorises_nothing(house: House) -> None:
    run = await approved(house)
    await house.store.everyone.pool.execute(
        "UPDATE decisions SET signed = convert_to('a.b.c', 'UTF8') WHERE tenant = $1", house.tenant
    )
    await asked_anew(house, run)


async def test_a_decision_whose_key_is_gone_authorises_nothing(house: House) -> None:
    run = await approved(house)
    await house.store.everyone.pool.execute(
        "DELETE FROM approver_keys WHERE tenant = $1", house.tenant
    )
    await asked_anew(house, run)


async def test_a_verdict_that_was_turned_round_in_the_database_authorises_nothing(
    house: House,
) -> None:
    alice = await house.person()
    await house.agent()
    run = await house.drive(await alice.run(JOB))
    await alice.deny((await house.pending(run))[0])
    await house.store.everyone.pool.execute(
        "UPDATE decisions SET decision = 'approve' WHERE tenant = $1", house.tenant
    )
    await house.store.everyone.pool.execute(
        "UPDATE approvals SET status = 'approved' WHERE tenant = $1", house.tenant
    )
    await house.drive(run)
    assert house.tools.count() == 0


async def test_one_of_two_approvals_that_is_gone_is_not_made_up_for(house: House) -> None:
    await house.person()
    await house.agent(approvers={"count": 2})
    alice = await house.person()
    run = await house.drive(await alice.run(JOB))
    (asked,) = await house.pending(run)
    for name in ("ann", "ben"):
        await (await house.person(name, "approver")).approve(asked)
    await house.store.everyone.pool.execute(
        "DELETE FROM decisions WHERE tenant = $1 AND approver = 'ben'", house.tenant
    )
    await asked_anew(house, run)


async def test_a_key_revoked_since_keeps_what_it_signed(house: House) -> None:
    alice = await house.person()
    run = await approved(house)
    async with house.store.database.transaction(house.tenant) as tx:
        await tx.revoke_key(alice.key_id, now=house.clock.now())
    assert (await house.drive(run)).status == "completed"
    assert house.tools.count() == 1


async def test_i4_arguments_written_into_the_columns_never_run(house: House) -> None:
    """What runs is what was signed, whatever the projections say of it."""
    run = await approved(house)
    evil = '{"n":666}'
    digest = sha256(evil.encode()).hexdigest()
    await house.store.everyone.pool.execute(
        "UPDATE approvals SET effective_args = $1, effective_args_sha256 = $2 WHERE tenant = $3",
        evil,
        digest,
        house.tenant,
    )
    await house.store.everyone.pool.execute(
        "UPDATE decisions SET effective_args_sha256 = $1, override_args = $2 WHERE tenant = $3",
        digest,
        evil,
        house.tenant,
    )
    assert (await house.drive(run)).status == "completed"
    assert [call.args for call in house.tools.calls] == [{"n": 1}]


async def points_at(house: House, asked: ApprovalRecord) -> None:
    """Write the row of a standing consent, as if the approval had given one."""
    await house.store.everyone.pool.execute(
        "INSERT INTO session_approvals (tenant, conversation_id, principal, agent, tool,"
        " covered_capabilities, tool_definition_digest, approval_id, at)"
        " VALUES ($1, $2, 'alice', 'helper', 'stamp', $3, $4, $5, now())",
        house.tenant,
        asked.conversation_id,
        asked.card["missing_capabilities"],
        asked.card["tool_definition_digest"],
        asked.id,
    )


@pytest.mark.parametrize("verdict", ["deny", "approve"])
async def test_a_standing_consent_without_a_signature_serves_nothing(
    house: House, verdict: str
) -> None:
    """A row of `session_approvals` is a pointer to a decision, and worth what that one says."""
    alice = await house.person()
    await house.agent()
    run = await house.drive(await alice.run(STAMP))
    (asked,) = await house.pending(run)
    await alice.decide(asked, verdict)
    await points_at(house, asked)
    await house.drive(run)
    ran = house.tools.count("stamp")
    again = await house.drive(await alice.run(STAMP, conversation_id=run.conversation_id))
    assert again.status == "paused"
    assert house.tools.count("stamp") == ran


@pytest.mark.parametrize("agent", ["helper", "other"])
async def test_a_standing_consent_that_was_moved_to_another_agent_serves_neither(
    house: House, agent: str
) -> None:
    """The row and the decision it points at must both be the agent's."""
    alice = await house.person()
    await house.agent()
    await house.agent("other")
    run = await house.drive(await alice.run(STAMP))
    await alice.approve((await house.pending(run))[0], scope="session")
    await house.drive(run)
    await house.store.everyone.pool.execute(
        "UPDATE session_approvals SET agent = 'other' WHERE tenant = $1", house.tenant
    )
    talk = run.conversation_id
    again = await house.drive(await alice.run(STAMP, agent=agent, conversation_id=talk))
    assert again.status == "paused"


async def test_the_turn_gets_the_reason_of_the_deciding_approver(house: House) -> None:
    """turn.md 2.3: it is kept for people; no request shows it."""
    alice = await house.person()
    await house.agent(approvers={"count": 2})
    run = await house.drive(await alice.run(JOB))
    (asked,) = await house.pending(run)
    for name in ("ann", "ben"):
        approver = await house.person(name, "approver")
        await approver.approve(asked, reason=f"{name} has looked")
    async with house.store.database.session(house.tenant) as session:
        given = await session.consent_records(run.conversation_id, run.id)
    decision = consents(run, given, MemoryTools()).decided[asked.id]
    assert (decision.reason, decision.decided_by) == ("ben has looked", ("ann", "ben"))
