"""A grant is offered where it would have spared the question, and nowhere else (F121)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from app.log.payload import WorkerRef
from app.policy.capability import ALL_CAPABILITIES, NO_CAPABILITIES, ORDINARY, Capability
from app.policy.constraints import Constraint
from app.service.grants.offers import offer
from tests.service.grants.granting import Holder
from tests.service.turns import pending
from tests.support.log.records import approval_record, run_record

if TYPE_CHECKING:
    from app.log.approvals import GrantOffer
    from tests.support.service.house import House

EGRESS = frozenset({Capability.ARBITRARY_EGRESS})
POST = EGRESS | {Capability.MUTATE_EXTERNAL}
READ = frozenset({Capability.FIXED_CONNECTOR_READ})
ORDERS = "https://shop.example/orders"
BEFORE = f'{{"body":"{{\\"n\\":1}}","url":"{ORDERS}"}}'
NOW = f'{{"body":"{{\\"n\\":2}}","url":"{ORDERS}/7"}}'


def offered(
    call: dict[str, Any] | None = None,
    before: dict[str, Any] | None = None,
    *,
    card: dict[str, Any] | None = None,
    base: Any = ORDINARY,
) -> GrantOffer | None:
    """The offer for a tainted call of `http_post`, where another of it was approved before."""
    asked = pending(**{"args_json": NOW, "required": POST, "missing": POST} | (call or {}))
    shown = {
        "agent": "courier",
        "tool": "http_post",
        "tool_definition_digest": "d" * 64,
        "args_canonical": BEFORE,
        "worker": None,
    }
    approved = approval_record(card=shown | (card or {}), **{"status": "approved"} | (before or {}))
    return offer(asked, [approved], run=run_record(), base=base)


def test_f121_the_like_of_what_was_approved_is_offered_as_a_grant_ready_to_be_signed() -> None:
    found = offered()
    assert found is not None
    assert found.model_dump(mode="json") == {
        "agent": "courier",
        "tool": "http_post",
        "capabilities": ["arbitrary-egress", "mutate-external"],
        "constraints": [{"pointer": "/url", "op": "url_prefix", "value": ORDERS}],
        "expires_in_s": 86_400,
    }


@dataclass(frozen=True)
class Case:
    id: str
    call: dict[str, Any] = field(default_factory=dict)
    before: dict[str, Any] = field(default_factory=dict)
    card: dict[str, Any] = field(default_factory=dict)
    base: Any = ORDINARY


WORKER = WorkerRef(call_id="call_1_1_0", agent="scout")
NOT_OFFERED = [
    Case("nothing is missing", call={"missing": NO_CAPABILITIES}),
    Case("the tool asks anyway", call={"requires_human": True}),
    Case("it is the sandbox that asks", call={"sandbox_escalation": True}),
    Case("it is a re-run that asks", call={"outcome_unknown": True}),
    Case("a worker asks", call={"worker": WORKER}),
    Case("not taint alone", call={"required": POST | READ, "missing": POST | READ}),
    Case("what is never granted", call={"required": ALL_CAPABILITIES, "missing": ALL_CAPABILITIES}),
    Case("beyond the agent's base", base=ORDINARY - EGRESS),
    Case("another address", call={"args_json": f'{{"url":"{ORDERS}-of-others"}}'}),
    Case("it was denied", before={"status": "denied"}),
    Case("it is pending", before={"status": "pending"}),
    Case("it was somebody else's run", before={"principal": "bob"}),
    Case("it was another agent's", card={"agent": "clerk"}),
    Case("it was another tool", card={"tool": "http_fetch"}),
    Case("it was defined otherwise", card={"tool_definition_digest": "e" * 64}),
    Case("it was a worker's", card={"worker": {"call_id": "call_1_1_0", "agent": "scout"}}),
    Case(
        "it was longer than anybody reads",
        card={"args_canonical": f'{{"body":"{{{70_000 * "x"}","url":"{ORDERS}"}}'},
    ),
    Case("nothing to widen", card={"args_canonical": '{"to":"ann"}'}),
    Case("it was edited to something else", before={"effective_args": '{"url":"https://b.test/"}'}),
    Case(
        "too much to hold",
        call={"args_json": f'{{"url":"{ORDERS}","x":["{5000 * "x"}"]}}'},
        card={"args_canonical": f'{{"url":"{ORDERS}","x":["{5000 * "x"}"]}}'},
    ),
]


@pytest.mark.parametrize("case", NOT_OFFERED, ids=lambda case: case.id)
def test_f121_no_grant_is_offered_that_would_not_have_helped(case: Case) -> None:
    assert offered(case.call, case.before, card=case.card, base=case.base) is None


def test_what_the_approver_made_of_the_call_counts() -> None:
    edited = f'{{"url":"{ORDERS}/7"}}'
    found = offered(before={"effective_args": edited})
    assert found is not None
    assert [one.value for one in found.constraints] == [f"{ORDERS}/7"]


def test_an_agent_with_exactly_what_taint_takes_is_offered_it() -> None:
    assert offered(base=POST) is not None


@pytest.mark.parametrize(("characters", "is_read"), [(65_536, True), (65_537, False)])
def test_arguments_of_64_ki_characters_are_read_and_longer_ones_are_not(
    characters: int, is_read: bool
) -> None:
    empty = f'{{"body":"","url":"{ORDERS}"}}'
    body = "x" * (characters - len(empty))
    before = empty.replace('""', f'"{body}"')
    assert (offered(card={"args_canonical": before}) is not None) is is_read


@pytest.mark.postgres
async def test_f121_the_second_call_is_offered_a_grant_under_which_the_third_runs(
    house: House,
) -> None:
    """Without a grant each of them asks; with the one that the card offers, the last does not."""
    steps = [f'call charge {{"amount":{amount},"to":"ann"}}' for amount in (40, 30, 20, 41)]
    await house.agent(approval={"*": "allow"})
    alice = await house.person()
    run = await house.drive(await alice.run("\n---\n".join(["call fetch {}", *steps, "say done"])))
    (first,) = await house.pending(run)
    assert "grant_offer" not in first.card
    await alice.approve(first)
    run = await house.drive(run)
    (second,) = await house.pending(run)
    taken = second.card["grant_offer"]
    constraints = tuple(Constraint(**one) for one in taken["constraints"])
    assert constraints == (
        Constraint("/amount", "range", [0, 40]),
        Constraint("/to", "equals", "ann"),
    )
    await (await Holder.of(house)).grant(
        capabilities=tuple(taken["capabilities"]), constraints=constraints
    )
    await alice.approve(second)
    run = await house.drive(run)
    (beyond,) = await house.pending(run)
    assert beyond.card["args"]["amount"] == 41
    assert "grant_offer" not in beyond.card
    by = [one["covered_by"] and one["covered_by"]["kind"] for one in await started(house, run)]
    assert by == [None, "decision", "decision", "grant"]
    assert len(await house.asked(run)) == 3


async def started(house: House, run: Any) -> list[dict[str, Any]]:
    return await house.data(run, "tool.started")
