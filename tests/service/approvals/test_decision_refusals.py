"""Every refusal of a posted decision, in the order of service.md 5; nothing is lost by any."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import orjson
import pytest

from app.service.refusals import DecisionRefusal, NotFound, Refusal
from tests.trust.signer import Signer, compact

if TYPE_CHECKING:
    from app.log.records import ApprovalRecord, RunRecord
    from tests.support.service.house import House, Person

pytestmark = pytest.mark.postgres


async def asked_by(
    house: House, *, tool: str = "mutate", **agent: Any
) -> tuple[Person, RunRecord, ApprovalRecord]:
    alice = await house.person()
    await house.agent(**agent)
    run = await house.drive(await alice.run(f'call {tool} {{"n":1}}\n---\nsay done'))
    (asked,) = await house.pending(run)
    return alice, run, asked


async def refused(who: Person, asked: ApprovalRecord, verdict: Any, jws: object) -> Refusal:
    """The refusal of a post, as the edge records it; the approval is as it was before."""
    before = (await who.house.asked(await _run_of(who, asked)))[0]
    with pytest.raises(Refusal) as caught:
        await who.post(asked.id, verdict, jws)
    after = (await who.house.asked(await _run_of(who, asked)))[0]
    assert after == before
    assert who.house.tools.count() == 0
    return caught.value


async def _run_of(who: Person, asked: ApprovalRecord) -> RunRecord:
    async with who.house.store.database.session(who.house.tenant) as session:
        run = await session.run(asked.run_id)
    assert run is not None
    return run


def pointer(refusal: Refusal) -> str | None:
    return refusal.faults[0].pointer if refusal.faults else None


async def changed(who: Person, asked: ApprovalRecord, **fields: Any) -> str:
    """A correctly signed decision with these fields of its payload altered."""
    payload = orjson.loads(await who.payload(asked.id, decision="approve")) | fields
    return who.sign(compact(payload))


async def test_f1_an_approval_that_was_never_issued_is_not_found(house: House) -> None:
    """T70: nothing is stored, not even the nonce: the same bytes decide what they are about."""
    alice, run, asked = await asked_by(house)
    jws = alice.sign(await alice.payload(asked.id, decision="approve"))
    before = await house.types(run)
    with pytest.raises(NotFound):
        await alice.post("appr_invented", "approve", jws)
    assert await house.types(run) == before
    assert (await alice.post(asked.id, "approve", jws)).persisted is True


async def test_an_approval_out_of_reach_is_not_found(house: House) -> None:
    alice, _, asked = await asked_by(house)
    eve = await house.person("eve")
    with pytest.raises(NotFound):
        await eve.post(
            asked.id, "approve", alice.sign(await alice.payload(asked.id, decision="approve"))
        )


@pytest.mark.parametrize("jws", [None, 7, "", "a.b", "a.b.c"], ids=repr)
async def test_what_is_no_decision_is_malformed(house: House, jws: object) -> None:
    alice, _, asked = await asked_by(house)
    refusal = await refused(alice, asked, "approve", jws)
    assert refusal.code == "decision.malformed"


@dataclass(frozen=True)
class FieldCase:
    name: str
    fields: dict[str, Any]
    code: str
    pointer: str | None


FIELDS = [
    FieldCase("another_version", {"v": 2}, "decision.malformed", "/v"),
    FieldCase("unknown_field", {"planet": "mars"}, "decision.malformed", "/planet"),
    FieldCase("no_verdict", {"decision": "yes"}, "decision.malformed", "/decision"),
    FieldCase("another_path", {"decision": "deny"}, "decision.malformed", "/decision"),
    FieldCase("tenant", {"tenant": "other"}, "decision.binding", "/tenant"),
    FieldCase("approval", {"approval_id": "appr_x"}, "decision.binding", "/approval_id"),
    FieldCase("run", {"run_id": "run_x"}, "decision.binding", "/run_id"),
    FieldCase("conversation", {"conversation_id": "c"}, "decision.binding", "/conversation_id"),
    FieldCase("turn", {"turn_id": "turn_x"}, "decision.binding", "/turn_id"),
    FieldCase("request", {"request_id": "x"}, "decision.binding", "/request_id"),
    FieldCase("tool", {"tool": "read"}, "decision.binding", "/tool"),
    FieldCase(
        "definition",
        {"tool_definition_digest": "0" * 64},
        "decision.binding",
        "/tool_definition_digest",
    ),
    FieldCase("f2_arguments", {"args_sha256": "0" * 64}, "decision.binding", "/args_sha256"),
    FieldCase("session", {"scope": "session"}, "decision.binding", "/scope"),
    FieldCase(
        "covered",
        {"covered_capabilities": ["grant-admin"]},
        "decision.binding",
        "/covered_capabilities",
    ),
    FieldCase("sandbox", {"sandbox_mode": "relaxed"}, "decision.binding", "/sandbox_mode"),
]


@pytest.mark.parametrize("case", FIELDS, ids=lambda case: case.name)
async def test_f2_a_signed_field_that_is_not_the_approval_s_is_refused(
    house: House, case: FieldCase
) -> None:
    alice, _, asked = await asked_by(house)
    refusal = await refused(alice, asked, "approve", await changed(alice, asked, **case.fields))
    assert (refusal.code, pointer(refusal)) == (case.code, case.pointer)


async def test_a_signature_by_another_key_is_refused(house: House) -> None:
    alice, _, asked = await asked_by(house)
    head = {"alg": "ES256", "kid": alice.key_id, "typ": "turngate-decision+jws"}
    canonical = await alice.payload(asked.id, decision="approve")
    forged = Signer.of(4711).jws(head, canonical.encode())
    assert (await refused(alice, asked, "approve", forged)).code == "decision.signature"


async def test_a_key_that_nobody_registered_is_refused(house: House) -> None:
    alice, _, asked = await asked_by(house)
    canonical = await alice.payload(asked.id, decision="approve")
    jws = alice.sign(canonical, kid="key_unknown")
    assert (await refused(alice, asked, "approve", jws)).code == "decision.signature"


async def test_a_revoked_key_is_refused(house: House) -> None:
    alice, _, asked = await asked_by(house)
    jws = alice.sign(await alice.payload(asked.id, decision="approve"))
    async with house.store.database.transaction(house.tenant) as tx:
        await tx.revoke_key(alice.key_id, now=house.clock.now())
    assert (await refused(alice, asked, "approve", jws)).code == "decision.signature"


async def test_a_key_of_somebody_else_does_not_sign_for_the_approver(house: House) -> None:
    alice, _, asked = await asked_by(house)
    bob = await house.person("bob", "approver")
    jws = bob.sign(await alice.payload(asked.id, decision="approve"))
    assert (await refused(alice, asked, "approve", jws)).code == "decision.signature"


async def test_a_decision_signed_for_an_earlier_time_is_expired(house: House) -> None:
    alice, _, asked = await asked_by(house)
    jws = alice.sign(await alice.payload(asked.id, decision="approve"))
    await house.clock.let_pass(900)
    await house.clock.let_pass(1)
    assert (await refused(alice, asked, "approve", jws)).code == "decision.expired"


async def test_a_decision_from_the_future_is_expired(house: House) -> None:
    alice, _, asked = await asked_by(house)
    now = int(house.clock.now().timestamp())
    jws = await changed(alice, asked, iat=now + 61, exp=now + 120)
    assert (await refused(alice, asked, "approve", jws)).code == "decision.expired"


async def test_a_nonce_that_another_payload_used_is_replayed(house: House) -> None:
    alice = await house.person()
    await house.agent()
    run = await house.drive(await alice.run("call mutate {}\ncall mutate {}\n---\nsay done"))
    first, second = await house.pending(run)
    payload = await alice.payload(first.id, decision="approve")
    await alice.post(first.id, "approve", alice.sign(payload))
    again = orjson.loads(await alice.payload(second.id, decision="approve"))
    again["nonce"] = orjson.loads(payload)["nonce"]
    with pytest.raises(Refusal) as caught:
        await alice.post(second.id, "approve", alice.sign(compact(again)))
    assert (caught.value.code, pointer(caught.value)) == ("decision.replayed", "/nonce")


async def test_a_refused_decision_leaves_its_nonce_free(house: House) -> None:
    alice, _, asked = await asked_by(house, approvers={"allow_self": False})
    bob = await house.person("bob", "approver")
    payload = orjson.loads(await bob.payload(asked.id, decision="approve"))
    own = alice.sign(compact(payload | {"approver": "alice"}))
    assert (await refused(alice, asked, "approve", own)).code == "decision.approver"
    assert (await bob.post(asked.id, "approve", bob.sign(compact(payload)))).persisted is True


async def test_an_approver_that_is_not_the_caller_is_refused(house: House) -> None:
    alice, _, asked = await asked_by(house)
    bob = await house.person("bob", "approver")
    jws = alice.sign(await alice.payload(asked.id, decision="approve"))
    refusal = await refused(bob, asked, "approve", jws)
    assert (refusal.code, pointer(refusal)) == ("decision.approver", "/approver")


async def test_who_signs_in_another_s_name_is_no_approver(house: House) -> None:
    alice, _, asked = await asked_by(house)
    await house.person("bob", "approver")
    jws = await changed(alice, asked, approver="bob")
    refusal = await refused(alice, asked, "approve", jws)
    assert (refusal.code, pointer(refusal)) == ("decision.approver", "/approver")


async def test_t77_nobody_approves_their_own_run_of_a_four_eyes_agent(house: House) -> None:
    alice, _, asked = await asked_by(house, approvers={"allow_self": False})
    jws = alice.sign(await alice.payload(asked.id, decision="approve"))
    assert (await refused(alice, asked, "approve", jws)).code == "decision.approver"


async def test_a_participant_without_a_role_may_not_decide(house: House) -> None:
    _, run, asked = await asked_by(house)
    bob = await house.person("bob")
    await house.share(run, "bob")
    jws = bob.sign(await bob.payload(asked.id, decision="approve"))
    assert (await refused(bob, asked, "approve", jws)).code == "decision.approver"


async def test_a_key_is_too_weak_where_a_passkey_is_asked_for(house: House) -> None:
    alice, _, asked = await asked_by(house, assurance={"tools": {"mutate": "passkey"}})
    jws = alice.sign(await alice.payload(asked.id, decision="approve"))
    assert (await refused(alice, asked, "approve", jws)).code == "decision.approver"


async def test_each_tool_is_asked_for_at_its_own_assurance(house: House) -> None:
    """Of two calls of one turn, a key decides the one, and the other waits for a passkey."""
    alice = await house.person()
    await house.agent(assurance={"default": "key", "tools": {"mutate": "passkey"}})
    run = await house.drive(await alice.run("call stamp {}\ncall mutate {}\n---\nsay done"))
    stamp, mutate = await house.pending(run)
    assert [one.card["required"]["assurance"] for one in (stamp, mutate)] == ["key", "passkey"]
    await alice.approve(stamp)
    jws = alice.sign(await alice.payload(mutate.id, decision="approve"))
    assert (await refused(alice, mutate, "approve", jws)).code == "decision.approver"
    assert [one.id for one in await house.pending(run)] == [mutate.id]


@dataclass(frozen=True)
class EditCase:
    name: str
    edit: dict[str, Any]
    pointer: str


EDITS = [
    EditCase("off_schema", {"n": "5"}, "/override_args"),
    EditCase("unknown_member", {"n": 1, "tool": "delete_x"}, "/override_args"),
    EditCase("missing_member", {}, "/override_args"),
]


@pytest.mark.parametrize("case", EDITS, ids=lambda case: case.name)
async def test_f8_an_edit_that_could_not_run_is_refused(house: House, case: EditCase) -> None:
    """T59: one that names another tool is off the schema as well."""
    alice, _, asked = await asked_by(house, tool="strict")
    canonical = await alice.payload(asked.id, decision="approve", override_args=case.edit)
    refusal = await refused(alice, asked, "approve", alice.sign(canonical))
    assert (refusal.code, pointer(refusal)) == ("decision.edit", case.pointer)


async def test_f8_an_edit_that_has_a_number_beyond_2_53_is_refused(house: House) -> None:
    """T59: it is malformed."""
    alice, _, asked = await asked_by(house)
    payload = orjson.loads(await alice.payload(asked.id, decision="approve"))
    payload["override_args"] = '{"n":9007199254740993}'
    refusal = await refused(alice, asked, "approve", alice.sign(compact(payload)))
    assert (refusal.code, pointer(refusal)) == ("decision.malformed", "/override_args")


async def test_f8_an_edit_of_a_tool_that_is_vetoed_by_now_is_refused(house: House) -> None:
    """T59."""
    alice, _, asked = await asked_by(house)
    await house.agent(approval={"mutate": "veto"})
    canonical = await alice.payload(asked.id, decision="approve", override_args={"n": 2})
    refusal = await refused(alice, asked, "approve", alice.sign(canonical))
    assert refusal.code == "decision.edit"


async def note(house: House, who: Person, asked: ApprovalRecord, jws: object) -> None:
    """Post a decision as the edge does, which records its refusal."""
    try:
        await who.post(asked.id, "approve", jws)
    except DecisionRefusal as refusal:
        await house.approvals.note_refusal(who.caller, asked.id, refusal)


async def test_f2_a_refusal_is_recorded_with_its_field(house: House) -> None:
    alice, run, asked = await asked_by(house)
    await note(house, alice, asked, await changed(alice, asked, args_sha256="0" * 64))
    assert await house.data(run, "decision.refused") == [
        {
            "approval_id": asked.id,
            "code": "decision.binding",
            "pointer": "/args_sha256",
            "caller": "alice",
        }
    ]


async def test_at_most_twenty_refusals_are_recorded(house: House) -> None:
    alice, run, asked = await asked_by(house)
    for _ in range(22):
        await note(house, alice, asked, "a.b.c")
    assert len(await house.data(run, "decision.refused")) == 20
    assert (await alice.approve(asked)).persisted is True
    assert (await house.drive(run)).status == "completed"


async def test_a_refusal_after_the_decision_is_not_recorded(house: House) -> None:
    alice, run, asked = await asked_by(house)
    await alice.approve(asked)
    await note(house, alice, asked, "a.b.c")
    assert await house.data(run, "decision.refused") == []
