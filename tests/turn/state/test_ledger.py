"""The views of the decision ledger (turn.md 2.3)."""

from __future__ import annotations

from app.turn.options import ApprovalDecision, ApprovalOverride, Identity, RunTurnOptions
from app.turn.state.ledger import DecisionLedger, canonical_identity

ONE = Identity("c1", "post", '{"n":1}')
TWO = Identity("c2", "post", '{"n":2}')
EDIT = ApprovalOverride('{"n":3}')


def decision(*, approved: bool, override: ApprovalOverride | None = None) -> ApprovalDecision:
    return ApprovalDecision(
        request_id="c1",
        tool_name="post",
        args_json='{"n":1.0}',
        approved=approved,
        override=override,
        turn_id="turn_1",
    )


def test_of_several_decisions_on_one_identity_a_view_shows_the_next() -> None:
    ledger = DecisionLedger(
        RunTurnOptions(
            approval_decisions=[decision(approved=True, override=EDIT), decision(approved=False)]
        )
    )
    assert ledger.approved_call_ids == {ONE}
    assert ledger.approved_overrides == {ONE: EDIT}
    assert ledger.denied_call_ids == frozenset()
    assert len(ledger) == 2


def test_collections_follow_the_list_and_are_sorted() -> None:
    ledger = DecisionLedger(
        RunTurnOptions(
            approval_decisions=[decision(approved=False)],
            approved_call_ids=frozenset({Identity("c3", "b", "{}"), Identity("c3", "a", "{}")}),
            denied_call_ids=frozenset({TWO}),
        )
    )
    assert [(one.request_id, one.tool_name, one.approved) for one in ledger] == [
        ("c1", "post", False),
        ("c3", "a", True),
        ("c3", "b", True),
        ("c2", "post", False),
    ]
    assert ledger.denied_call_ids == {ONE, TWO}


def test_malformed_arguments_have_no_canonical_form() -> None:
    assert canonical_identity(Identity("c", "t", "[")) == Identity("c", "t", "[")


def test_an_approval_without_an_edit_is_among_no_edits() -> None:
    ledger = DecisionLedger(RunTurnOptions(approval_decisions=[decision(approved=True)]))
    assert ledger.approved_call_ids == {ONE}
    assert ledger.approved_overrides == {}
