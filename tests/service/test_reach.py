"""Who sees what: out of reach and missing are one answer (service.md 2)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

import pytest

from app.service.caller import Caller
from app.service.reach import (
    decides_as_program,
    may_decide,
    takes_part,
    visible_approval,
    visible_conversation,
    visible_run,
)
from app.service.refusals import NotFound
from tests.support.log.records import approval_record, conversation_record, run_record

if TYPE_CHECKING:
    from app.log.records import ApprovalRecord, ConversationRecord, RunRecord
    from app.service.ports.database import Session


def caller(principal: str, *roles: str, admin: bool = False) -> Caller:
    scopes = frozenset({"admin"} if admin else {"runs:read", "approvals:decide"})
    return Caller("acme", principal, scopes, frozenset(roles))


ALICE, BOB, EVE = caller("alice"), caller("bob"), caller("eve")
APPROVER, ADMIN, PROGRAM = (
    caller("ann", "approver"),
    caller("root", admin=True),
    caller("reviewer"),
)


def asked(
    *, allow_self: bool = True, roles: tuple[str, ...] = ("approver",), **card: Any
) -> ApprovalRecord:
    required = {"count": 1, "assurance": "key", "roles": list(roles), "allow_self": allow_self}
    return approval_record(card={"required": required} | card, programs=("reviewer",))


@dataclass(frozen=True)
class DecideCase:
    name: str
    caller: Caller
    allow_self: bool
    may: bool


MAY_DECIDE = [
    DecideCase("the_principal_itself", ALICE, allow_self=True, may=True),
    DecideCase("the_principal_of_a_four_eyes_agent", ALICE, allow_self=False, may=False),
    DecideCase("a_role_does_not_lift_four_eyes", caller("alice", "approver"), False, may=False),
    DecideCase("somebody_with_a_role", APPROVER, allow_self=True, may=True),
    DecideCase("an_approver_of_a_four_eyes_agent", APPROVER, allow_self=False, may=True),
    DecideCase("somebody_with_another_role", caller("ann", "reader"), True, may=False),
    DecideCase("a_participant_without_a_role", BOB, allow_self=True, may=False),
    DecideCase("an_admin", ADMIN, allow_self=True, may=False),
    DecideCase("a_reviewer_program", PROGRAM, allow_self=True, may=True),
]


@pytest.mark.parametrize("case", MAY_DECIDE, ids=lambda case: case.name)
def test_who_may_decide(case: DecideCase) -> None:
    assert may_decide(case.caller, asked(allow_self=case.allow_self)) is case.may


def test_a_program_with_a_role_decides_as_a_person() -> None:
    assert decides_as_program(PROGRAM, asked()) is True
    assert decides_as_program(caller("reviewer", "approver"), asked()) is False
    assert decides_as_program(APPROVER, asked()) is False


def test_principal_and_participants_take_part() -> None:
    conversation = conversation_record(participants=("bob",))
    parts = [takes_part(one, conversation) for one in (ALICE, BOB, EVE, ADMIN)]
    assert parts == [True, True, False, False]


@dataclass
class Shelf:
    """The session's reads, over one conversation with one run and one approval."""

    conversations: dict[str, ConversationRecord] = field(
        default_factory=lambda: {"conv_1": conversation_record(participants=("bob",))}
    )
    runs: dict[str, RunRecord] = field(default_factory=lambda: {"run_1": run_record()})
    asked: dict[str, ApprovalRecord] = field(default_factory=lambda: {"appr_1": asked()})

    async def conversation(self, conversation_id: str) -> ConversationRecord | None:
        return self.conversations.get(conversation_id)

    async def run_and_conversation(
        self, run_id: str
    ) -> tuple[RunRecord, ConversationRecord] | None:
        run = self.runs.get(run_id)
        conversation = None if run is None else self.conversations.get(run.conversation_id)
        return None if run is None or conversation is None else (run, conversation)

    async def approval(self, approval_id: str) -> ApprovalRecord | None:
        return self.asked.get(approval_id)

    async def run_approvals(self, run_id: str) -> list[ApprovalRecord]:
        return list(self.asked.values())


@dataclass(frozen=True)
class SightCase:
    name: str
    caller: Caller
    conversation: bool
    run: bool
    approval: bool


SIGHT = [
    SightCase("principal", ALICE, conversation=True, run=True, approval=True),
    SightCase("participant", BOB, conversation=True, run=True, approval=True),
    SightCase("admin", ADMIN, conversation=True, run=True, approval=True),
    SightCase("approver", APPROVER, conversation=False, run=True, approval=True),
    SightCase("program", PROGRAM, conversation=False, run=True, approval=True),
    SightCase("stranger", EVE, conversation=False, run=False, approval=False),
]


async def sees(find: Any, who: Caller, resource_id: str, shelf: Shelf | None = None) -> bool:
    session = cast("Session", shelf or Shelf())
    try:
        found = await find(session, who, resource_id)
    except NotFound:
        return False
    return bool(found.id == resource_id)


@pytest.mark.parametrize("case", SIGHT, ids=lambda case: case.name)
async def test_who_sees_what(case: SightCase) -> None:
    assert await sees(visible_conversation, case.caller, "conv_1") is case.conversation
    assert await sees(visible_run, case.caller, "run_1") is case.run
    assert await sees(visible_approval, case.caller, "appr_1") is case.approval


@pytest.mark.parametrize(
    "find", [visible_conversation, visible_run, visible_approval], ids=["conv", "run", "approval"]
)
async def test_what_is_not_there_looks_like_what_is_out_of_reach(find: Any) -> None:
    messages = set()
    for who, shelf in ((ALICE, Shelf({}, {}, {})), (EVE, Shelf())):
        for resource_id in ("conv_1", "run_1", "appr_1"):
            try:
                await find(cast("Session", shelf), who, resource_id)
            except NotFound as refusal:
                messages.add(refusal.message)
    assert len(messages) == 1


async def test_f1_a_decision_for_an_approval_that_was_never_issued_meets_not_found() -> None:
    assert await sees(visible_approval, ALICE, "appr_invented") is False
