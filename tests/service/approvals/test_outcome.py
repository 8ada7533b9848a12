"""What a decision answers: the approval is worked out, and is the one that the log now says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from app.log.records import ApprovalRecord
    from tests.support.service.house import House

pytestmark = pytest.mark.postgres


async def stored(house: House, asked: ApprovalRecord) -> ApprovalRecord:
    """The approval as the projections have it."""
    async with house.store.database.session(house.tenant) as session:
        found = await session.approval(asked.id)
    assert found is not None
    return found


async def asked_by(
    house: House, program: str = 'call mutate {"n":1}\n---\nsay done', **agent: Any
) -> ApprovalRecord:
    """The first approval of a run that is paused."""
    alice = await house.person()
    await house.agent(**agent)
    run = await house.drive(await alice.run(program))
    return (await house.pending(run))[0]


@pytest.mark.parametrize(
    ("verdict", "draft"),
    [
        ("approve", {}),
        ("approve", {"note": "mind the \0 and the \U0001f600"}),
        ("approve", {"override_args": {"n": 2}, "note": "two is enough"}),
        ("approve", {"override_args": {"n": 1}}),
        ("deny", {"reason": "not today"}),
    ],
    ids=["approve", "note", "edit", "edit_without_a_change", "deny"],
)
async def test_the_answer_to_a_decision_is_the_approval_as_it_is_stored(
    house: House, verdict: str, draft: dict[str, Any]
) -> None:
    asked = await asked_by(house)
    alice = await house.person()
    house.clock.step(0.0123456)
    answered = await alice.decide(asked, verdict, **draft)
    assert answered.persisted
    assert answered.approval == await stored(house, asked)


async def test_the_answer_to_a_session_approval_is_the_approval_as_it_is_stored(
    house: House,
) -> None:
    asked = await asked_by(house, "call stamp {}\ncall stamp {}\n---\nsay done")
    answered = await (await house.person()).approve(asked, scope="session")
    assert answered.approval == await stored(house, asked)


async def test_every_answer_of_several_approvers_is_the_approval_as_it_is_stored(
    house: House,
) -> None:
    asked = await asked_by(house, approvers={"count": 2})
    ann, ben, carl = [await house.person(name, "approver") for name in ("ann", "ben", "carl")]
    two = {"override_args": {"n": 2}}
    for person, draft in ((ann, two), (ben, {}), (carl, two)):
        answered = await person.approve(asked, **draft)
        assert answered.approval == await stored(house, asked)
    last = await stored(house, asked)
    assert (last.status, last.effective_args) == ("approved", '{"n":2}')


async def test_a_denial_after_an_approval_takes_its_arguments_away(house: House) -> None:
    asked = await asked_by(house, approvers={"count": 2})
    ann, ben = [await house.person(name, "approver") for name in ("ann", "ben")]
    await ann.approve(asked)
    denied = await ben.deny(asked, reason="no")
    assert denied.approval == await stored(house, asked)
    assert (denied.approval.status, denied.approval.effective_args) == ("denied", None)
