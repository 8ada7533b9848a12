"""The three collections of decisions: given to a turn, and as views of what is left of them.

turn.md 2.2, 2.3.
"""

from __future__ import annotations

from typing import Any

import pytest

from app.engine.commands import PendingToolCall
from app.engine.json.arguments import Arguments, parse_arguments
from app.engine.messages import ToolCall
from app.log.calls import ToolSettled
from app.turn.options import ApprovalDecision, ApprovalOverride, Identity, RunTurnOptions
from app.turn.result import EndedBy
from app.turn.state.call import OpenCall
from app.turn.state.ledger import DecisionLedger
from tests.support.turn.provider import called, reply, said
from tests.support.turn.tools import POST, MemoryTool
from tests.support.turn.world import World

# Given as somebody spells them, shown in canonical form.
GIVEN = Identity("c1", "post", '{"b": 1.0, "a": 2}')
SHOWN = Identity("c1", "post", '{"a":2,"b":1}')
OTHER = Identity("c2", "post", "{}")
EDIT = ApprovalOverride('{"a":3}', "three is enough")

Views = tuple[frozenset[Identity], dict[Identity, ApprovalOverride], frozenset[Identity]]


def views(ledger: DecisionLedger) -> Views:
    return ledger.approved_call_ids, ledger.approved_overrides, ledger.denied_call_ids


def open_call(identity: Identity) -> tuple[OpenCall, Arguments]:
    wire = ToolCall.from_wire(
        identity.request_id, identity.tool_name, identity.args_json, turn=1, position=0
    )
    args = parse_arguments(identity.args_json)
    assert isinstance(args, Arguments)
    pending = PendingToolCall(turn=1, position=0, kind="execute", tool_call=wire)
    return OpenCall(call_id="call_1_1_0", turn_id="turn_1", pending=pending, args=args), args


def test_what_is_given_in_collections_is_seen_in_the_views() -> None:
    ledger = DecisionLedger(
        RunTurnOptions(
            approved_call_ids=frozenset({GIVEN}),
            approved_overrides={GIVEN: EDIT},
            denied_call_ids=frozenset({OTHER}),
        )
    )
    assert views(ledger) == (frozenset({SHOWN}), {SHOWN: EDIT}, frozenset({OTHER}))


def test_what_is_used_has_left_the_views() -> None:
    """T37: a collection tuple is drained as a listed decision is."""
    ledger = DecisionLedger(
        RunTurnOptions(
            approved_call_ids=frozenset({GIVEN}),
            approved_overrides={GIVEN: EDIT},
            denied_call_ids=frozenset({OTHER}),
        )
    )
    used = ledger.take(*open_call(SHOWN))
    assert used is not None
    assert (used.approved, used.override, used.turn_id) == (True, EDIT, None)
    assert views(ledger) == (frozenset(), {}, frozenset({OTHER}))
    assert ledger.take(*open_call(SHOWN)) is None
    denied = ledger.take(*open_call(OTHER))
    assert denied is not None
    assert not denied.approved
    assert views(ledger) == (frozenset(), {}, frozenset())


def test_once_a_listed_decision_is_used_the_views_show_the_one_after_it() -> None:
    listed = [
        ApprovalDecision(
            request_id="c1",
            tool_name="post",
            args_json=GIVEN.args_json,
            approved=approved,
            turn_id=turn_id,
        )
        for approved, turn_id in ((True, "turn_1"), (False, "turn_2"))
    ]
    ledger = DecisionLedger(RunTurnOptions(approval_decisions=listed))
    assert views(ledger) == (frozenset({SHOWN}), {}, frozenset())
    assert ledger.take(*open_call(SHOWN)) is not None
    assert views(ledger) == (frozenset(), {}, frozenset({SHOWN}))


@pytest.mark.parametrize(
    ("options", "ran", "settled"),
    [
        pytest.param(
            {"approved_call_ids": frozenset({GIVEN})}, [SHOWN.args_json], [], id="approved"
        ),
        pytest.param(
            {"approved_call_ids": frozenset({GIVEN}), "approved_overrides": {GIVEN: EDIT}},
            [EDIT.modified_args_json],
            [],
            id="edited",
        ),
        pytest.param({"denied_call_ids": frozenset({GIVEN})}, [], ["denied"], id="denied"),
    ],
)
async def test_each_collection_resolves_the_call_that_an_earlier_turn_left(
    options: dict[str, Any], ran: list[str], settled: list[str]
) -> None:
    world = World(
        [reply(called("c1", "post", '{"a":2,"b":1}')), reply(said("ok"))],
        MemoryTool("post", POST, asks=True),
    )
    assert (await world.turn()).ended_by is EndedBy.PAUSE
    result = await world.turn(**options)
    assert result.ended_by is EndedBy.ANSWER
    assert [call.args_canonical.decode() for call in world.tools.calls] == ran
    assert [one.outcome for one in world.journal.of(ToolSettled)] == settled


async def test_of_equal_decisions_the_first_is_for_the_first_occurrence() -> None:
    """turn.md 2.3: decisions in their order, occurrences in that of the log."""
    equal = [called("c1", "post", {}, position=place) for place in range(2)]
    world = World([reply(*equal), reply(said("ok"))], MemoryTool("post", POST, asks=True))
    assert (await world.turn()).ended_by is EndedBy.PAUSE
    decisions = [
        ApprovalDecision(
            request_id="c1", tool_name="post", args_json="{}", approved=approved, turn_id="turn_1"
        )
        for approved in (True, False)
    ]
    await world.turn(approval_decisions=decisions)
    assert [call.call_id for call in world.tools.calls] == ["call_1_1_0"]
    assert [one.call_id for one in world.journal.of(ToolSettled)] == ["call_1_1_1"]
