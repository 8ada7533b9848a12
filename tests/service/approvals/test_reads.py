"""Reading approvals, and what may be signed about them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from app.log.queries import Page
from app.service.refusals import DecisionMalformed, NotFound, RequestInvalid

if TYPE_CHECKING:
    from app.log.records import ApprovalRecord
    from tests.support.service.house import House, Person

pytestmark = pytest.mark.postgres


async def asked_by(house: House, program: str = "call mutate {}\n---\nsay done") -> ApprovalRecord:
    alice = await house.person()
    await house.agent()
    run = await house.drive(await alice.run(program))
    (asked,) = await house.pending(run)
    return asked


async def listed(house: House, who: Person, **filters: str) -> list[str]:
    async with house.store.database.session(house.tenant) as session:
        page = await house.approvals.page(session, who.caller, Page(), filters)
    return [one.id for one in page]


async def test_a_list_shows_what_its_caller_may_see(house: House) -> None:
    asked = await asked_by(house)
    seen = {
        name: await listed(house, await house.person(name, *roles))
        for name, roles in {"alice": (), "ann": ("approver",), "eve": ()}.items()
    }
    assert seen == {"alice": [asked.id], "ann": [asked.id], "eve": []}


async def test_a_list_is_narrowed_by_status(house: House) -> None:
    asked = await asked_by(house)
    alice = await house.person()
    assert await listed(house, alice, status="pending") == [asked.id]
    assert await listed(house, alice, status="approved") == []


async def test_an_approval_is_read_within_reach(house: House) -> None:
    asked = await asked_by(house)
    alice, eve = await house.person(), await house.person("eve")
    async with house.store.database.session(house.tenant) as session:
        assert (await house.approvals.read(session, alice.caller, asked.id)).id == asked.id
        with pytest.raises(NotFound):
            await house.approvals.read(session, eve.caller, asked.id)


@dataclass(frozen=True)
class DraftCase:
    name: str
    draft: dict[str, Any]
    pointer: str


DRAFTS = [
    DraftCase("session", {"decision": "approve", "scope": "session"}, "/scope"),
    DraftCase("sandbox", {"decision": "approve", "sandbox_mode": "relaxed"}, "/sandbox_mode"),
    DraftCase("edited_denial", {"decision": "deny", "override_args": {}}, "/override_args"),
    DraftCase(
        "a_number_beyond_2_53",
        {"decision": "approve", "override_args": {"n": 2**53}},
        "/override_args",
    ),
    DraftCase("a_long_note", {"decision": "approve", "note": "x" * 4097}, "/note"),
    DraftCase("a_long_reason", {"decision": "deny", "reason": "x" * 4097}, "/reason"),
]


@pytest.mark.parametrize("case", DRAFTS, ids=lambda case: case.name)
async def test_what_could_never_be_accepted_is_not_offered_for_signing(
    house: House, case: DraftCase
) -> None:
    asked = await asked_by(house)
    with pytest.raises(RequestInvalid) as caught:
        await (await house.person()).payload(asked.id, **case.draft)
    assert [fault.pointer for fault in caught.value.faults] == [case.pointer]


async def test_a_payload_is_offered_and_nothing_is_stored(house: House) -> None:
    asked = await asked_by(house)
    alice = await house.person()
    one = await alice.payload(asked.id, decision="approve")
    other = await alice.payload(asked.id, decision="approve")
    assert one != other
    assert (await house.asked(await house.run_of(asked)))[0] == asked


async def test_standing_consents_are_listed_to_the_conversation_s_people(house: House) -> None:
    asked = await asked_by(house, "call stamp {}\n---\nsay done")
    alice, eve = await house.person(), await house.person("eve")
    await alice.approve(asked, scope="session")
    async with house.store.database.session(house.tenant) as session:
        (given,) = await house.approvals.session_approvals(
            session, alice.caller, asked.conversation_id
        )
        assert (given.tool, given.agent, given.principal, given.approval_id) == (
            "stamp",
            "helper",
            "alice",
            asked.id,
        )
        with pytest.raises(NotFound):
            await house.approvals.session_approvals(session, eve.caller, asked.conversation_id)


async def test_a_refusal_of_what_is_not_there_leaves_no_trace(house: House) -> None:
    alice = await house.person()
    await house.approvals.note_refusal(alice.caller, "appr_never", DecisionMalformed("no"))
    await house.approvals.expire(house.tenant, "appr_never")
