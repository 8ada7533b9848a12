"""Decisions and the calls they are about (turn.md 2.3, 4, T28 to T45)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
import structlog

from app.engine.messages import ToolResult, UserMessage
from app.log.calls import ToolSettled
from app.turn.options import ApprovalDecision, ApprovalOverride, Identity
from app.turn.result import EndedBy
from tests.support.turn.provider import EndlessProvider, called, reply, said
from tests.support.turn.tools import POST, MemoryTool
from tests.support.turn.world import World, approve, deny

if TYPE_CHECKING:
    from app.turn.result import TurnResult

DENIED = '{"approved":false,"error":"denied by human approver"}'


def asking(*names: str) -> list[MemoryTool]:
    return [MemoryTool(name, POST, asks=True) for name in names or ("post",)]


def two_calls() -> list[Any]:
    """Two calls of one id and equal arguments in one reply."""
    return reply(called("c1", "post", {"x": 1}), called("c1", "post", {"x": 1}, position=1))


async def paused(world: World) -> TurnResult:
    result = await world.turn()
    assert result.ended_by is EndedBy.PAUSE
    return result


@pytest.mark.parametrize(
    ("tool", "args"),
    [
        pytest.param("post", {"x": 2}, id="other-arguments"),
        pytest.param("send", {"x": 1}, id="another-tool"),
    ],
)
async def test_t28_an_approval_covers_neither_other_arguments_nor_another_tool(
    tool: str, args: dict[str, int]
) -> None:
    world = World(
        [reply(called("c1", "post", {"x": 1})), reply(called("c1", tool, args))],
        *asking("post", "send"),
    )
    first = await paused(world)
    second = await world.turn(approval_decisions=[approve(first.pending_approvals[0])])
    assert [pending.tool_name for pending in second.pending_approvals] == [tool]
    assert world.tools.ran == ["post"]


async def test_t30_without_dangling_call_or_decision_the_prepass_changes_nothing() -> None:
    world = World([reply(said("hi"))], *asking())
    with structlog.testing.capture_logs() as logs:
        await world.turn()
    assert logs == []
    assert world.journal.types == ["step.started", "message.assistant", "step.completed"]


async def test_results_stand_right_after_the_batch_they_belong_to() -> None:
    world = World([reply(called("c1", "post", {})), reply(said("ok"))], *asking())
    first = await paused(world)
    await world.turn(approval_decisions=[approve(first.pending_approvals[0])])
    prompt, asked, answered = world.prepared.requests[1].messages
    assert (prompt.role, asked.role, answered.role) == ("user", "assistant", "user")
    assert isinstance(answered, UserMessage)
    assert isinstance(answered.content[0], ToolResult)


async def test_t33_after_a_denial_the_same_id_with_other_arguments_is_a_new_request() -> None:
    world = World(
        [reply(called("c1", "post", {"x": 1})), reply(called("c1", "post", {"x": 2}))], *asking()
    )
    first = await paused(world)
    second = await world.turn(approval_decisions=[deny(first.pending_approvals[0])])
    assert [pending.args_json for pending in second.pending_approvals] == ['{"x":2}']
    assert second.pending_approvals[0].occurrence_turn_id is None


async def test_t34_decisions_and_calls_are_compared_by_canonical_value() -> None:
    world = World([reply(called("c1", "post", '{"a":2,"b":1.0}')), reply(said("ok"))], *asking())
    first = await paused(world)
    decision = replace(approve(first.pending_approvals[0]), args_json='{"b":1,"a":2}')
    await world.turn(approval_decisions=[decision])
    assert world.tools.calls[0].args_canonical == b'{"a":2,"b":1}'


async def test_t35_equal_calls_of_two_turns_each_get_their_own_decision() -> None:
    world = World(
        [
            reply(called("c1", "post", {"x": 1})),
            reply(called("c1", "post", {"x": 1})),
            reply(said("ok")),
        ],
        *asking(),
    )
    first = await paused(world)
    second = await world.turn(approval_decisions=[approve(first.pending_approvals[0])])
    await world.turn(approval_decisions=[deny(second.pending_approvals[0], turn_id="turn_2")])
    assert world.tools.ran == ["post"]
    assert [one.call_id for one in world.journal.of(ToolSettled)] == ["call_2_2_0"]


async def test_t36_one_approval_serves_exactly_one_of_two_equal_dangling_calls() -> None:
    world = World([two_calls()], *asking())
    first = await paused(world)
    decision = replace(approve(first.pending_approvals[0]), call_id=None)
    second = await world.turn(approval_decisions=[decision])
    assert world.tools.ran == ["post"]
    assert [one.call_id for one in second.pending_approvals] == ["call_1_1_1"]


async def test_a_decision_that_names_its_call_serves_that_one() -> None:
    world = World([two_calls()], *asking())
    first = await paused(world)
    second = await world.turn(approval_decisions=[approve(first.pending_approvals[1])])
    assert [call.call_id for call in world.tools.calls] == ["call_1_1_1"]
    assert [one.call_id for one in second.pending_approvals] == ["call_1_1_0"]


async def test_t37_a_decision_of_an_earlier_turn_does_not_serve_a_live_call() -> None:
    world = World([reply(called("c1", "post", {"x": 1}))], *asking())
    stray = ApprovalDecision(
        request_id="c1", tool_name="post", args_json='{"x":1}', approved=True, turn_id="turn_0"
    )
    result = await world.turn(approval_decisions=[stray])
    assert (len(result.pending_approvals), world.tools.ran) == (1, [])


async def test_t37_a_collection_tuple_serves_a_live_call_once() -> None:
    world = World(
        [reply(called("c1", "post", {"x": 1})), reply(called("c1", "post", {"x": 1}))], *asking()
    )
    result = await world.turn(approved_call_ids=frozenset({Identity("c1", "post", '{"x": 1}')}))
    assert world.tools.ran == ["post"]
    assert [one.call_id for one in result.pending_approvals] == ["call_1_2_0"]


async def test_a_collection_edit_goes_with_its_approval() -> None:
    identity = Identity("c1", "post", '{"x":1}')
    world = World([reply(called("c1", "post", {"x": 1})), reply(said("ok"))], *asking())
    await world.turn(
        approved_call_ids=frozenset({identity}),
        approved_overrides={identity: ApprovalOverride('{"x":2}')},
    )
    assert world.tools.calls[0].args_canonical == b'{"x":2}'


async def test_a_collection_denial_resolves_a_live_call() -> None:
    world = World([reply(called("c1", "post", {"x": 1})), reply(said("ok"))], *asking())
    result = await world.turn(denied_call_ids=frozenset({Identity("c1", "post", '{"x":1}')}))
    assert (result.text, world.journal.of(ToolSettled)[0].result) == ("ok", DENIED)


IDENTITY = Identity("c1", "post", '{"x":1}')
LISTED = ApprovalDecision(
    request_id="c1", tool_name="post", args_json='{"x":1.0}', approved=True, turn_id="turn_1"
)


@pytest.mark.parametrize(
    "options",
    [
        pytest.param(
            {"approval_decisions": [LISTED], "approved_call_ids": frozenset({IDENTITY})},
            id="list-and-approvals",
        ),
        pytest.param(
            {"approval_decisions": [LISTED], "denied_call_ids": frozenset({IDENTITY})},
            id="list-and-denials",
        ),
        pytest.param(
            {"approved_call_ids": frozenset({IDENTITY}), "denied_call_ids": frozenset({IDENTITY})},
            id="approvals-and-denials",
        ),
    ],
)
async def test_t38_one_identity_in_two_places_is_refused(options: dict[str, Any]) -> None:
    world = World([reply(said("hi"))], *asking())
    with pytest.raises(ValueError, match="expected one decision per call, found two for 'c1'"):
        await world.turn(**options)


async def test_t39_an_override_without_approval_approves_nothing_and_is_reported() -> None:
    world = World([reply(called("c1", "post", {"x": 1}))], *asking())
    with structlog.testing.capture_logs() as logs:
        result = await world.turn(approved_overrides={IDENTITY: ApprovalOverride('{"x":2}')})
    assert len(result.pending_approvals) == 1
    assert [(log["event"], log["request_id"]) for log in logs] == [
        ("override.without_approval", "c1")
    ]


async def test_t40_a_decision_whose_call_is_answered_is_harmless_and_reported_so() -> None:
    world = World([reply(called("c1", "post", {"x": 1})), reply(said("ok"))], *asking())
    first = await paused(world)
    decision = approve(first.pending_approvals[0])
    with structlog.testing.capture_logs() as logs:
        await world.turn(approval_decisions=[decision, decision])
    warnings = [log for log in logs if log["event"] == "decision.unmatched"]
    assert [log["why"] for log in warnings] == ["answered_earlier"]
    summary = next(log for log in logs if log["event"] == "turn.decisions")
    assert (summary["executed"], summary["pending"], summary["unmatched"]) == (1, 0, 1)
    assert world.tools.ran == ["post"]


async def test_t40_a_decision_that_an_earlier_turn_has_used_runs_nothing_again() -> None:
    world = World(
        [reply(called("c1", "post", {"x": 1})), reply(called("c2", "post", {"x": 2}))], *asking()
    )
    first = await paused(world)
    used = approve(first.pending_approvals[0])
    await world.turn(approval_decisions=[used])
    with structlog.testing.capture_logs() as logs:
        again = await world.turn(approval_decisions=[used])
    assert world.tools.ran == ["post"]
    assert [one.request_id for one in again.pending_approvals] == ["c2"]
    (warning,) = [log for log in logs if log["log_level"] == "warning"]
    assert (warning["event"], warning["why"]) == ("decision.unmatched", "answered_earlier")


async def test_t41_a_decision_whose_call_is_nowhere_is_reported_as_a_loss() -> None:
    world = World([reply(said("ok"))], *asking())
    lost = replace(LISTED, request_id="gone", approval_id="appr_9")
    with structlog.testing.capture_logs() as logs:
        result = await world.turn(approval_decisions=[lost])
    assert result.pending_approvals == ()
    (warning,) = [log for log in logs if log["event"] == "decision.unmatched"]
    assert (warning["why"], warning["approval_id"]) == ("found_nowhere", "appr_9")
    assert "args_json" not in warning


async def test_t41_an_unused_tuple_is_reported_at_the_turns_end() -> None:
    world = World([reply(called("c1", "read", "[")), reply(said("ok"))], MemoryTool("read"))
    with structlog.testing.capture_logs() as logs:
        await world.turn(approved_call_ids=frozenset({Identity("c1", "read", "[")}))
    assert [log["why"] for log in logs if log["event"] == "decision.unmatched"] == ["found_nowhere"]


async def test_t42_an_undecided_sibling_pends_again_under_its_own_approval() -> None:
    world = World(
        [reply(called("c1", "post", {"x": 1}), called("c2", "post", {"x": 2}, position=1))],
        *asking(),
    )
    first = await paused(world)
    second = await world.turn(approval_decisions=[approve(first.pending_approvals[0])])
    assert world.tools.ran == ["post"]
    (pending,) = second.pending_approvals
    assert (pending.call_id, pending.occurrence_turn_id) == ("call_1_1_1", "turn_1")
    assert second.ended_by is EndedBy.PAUSE
    assert len(world.prepared.requests) == 1


async def test_t43_a_denied_call_under_a_new_id_gets_the_same_denial() -> None:
    world = World(
        [
            reply(called("c1", "post", {"x": 1})),
            reply(called("c2", "post", {"x": 1.0})),
            reply(said("ok")),
        ],
        *asking(),
    )
    first = await paused(world)
    second = await world.turn(approval_decisions=[deny(first.pending_approvals[0])])
    assert second.text == "ok"
    assert [one.result for one in world.journal.of(ToolSettled)] == [DENIED, DENIED]


async def test_t43_other_arguments_than_the_denied_ones_are_a_new_request() -> None:
    world = World(
        [reply(called("c1", "post", {"x": 1})), reply(called("c2", "post", {"x": 2}))], *asking()
    )
    first = await paused(world)
    second = await world.turn(approval_decisions=[deny(first.pending_approvals[0])])
    assert [one.args_json for one in second.pending_approvals] == ['{"x":2}']
    assert len(world.journal.of(ToolSettled)) == 1


async def test_a_decision_stands_above_an_earlier_denial_of_the_like() -> None:
    """turn.md 3.7: what was denied is denied again only where nobody has decided otherwise."""
    world = World(
        [
            reply(called("c1", "post", {"x": 1})),
            reply(called("c2", "post", {"x": 1})),
            reply(said("ok")),
        ],
        *asking(),
    )
    first = await paused(world)
    await world.turn(
        approval_decisions=[deny(first.pending_approvals[0])],
        approved_call_ids=frozenset({Identity("c2", "post", '{"x":1}')}),
    )
    assert [call.request_id for call in world.tools.calls] == ["c2"]


async def test_t43_an_expired_call_is_told_so_each_time() -> None:
    world = World(
        [
            reply(called("c1", "post", {"x": 1})),
            reply(called("c2", "post", {"x": 1})),
            reply(said("ok")),
        ],
        *asking(),
    )
    first = await paused(world)
    await world.turn(approval_decisions=[deny(first.pending_approvals[0], expired=True)])
    expired = '{"approved":false,"error":"approval expired","reason":"expired"}'
    assert [(one.outcome, one.result) for one in world.journal.of(ToolSettled)] == [
        ("expired", expired)
    ] * 2


async def test_t44_a_denied_call_repeated_for_ever_ends_with_a_closing_completion() -> None:
    world = World([reply(called("c1", "post", {"x": 1}))], *asking())
    first = await paused(world)
    again = EndlessProvider(
        lambda step: reply(said("again "), called(f"r{step}", "post", {"x": 1}))
    )
    world.provider = again
    result = await world.turn(approval_decisions=[deny(first.pending_approvals[0])])
    assert [request.calls_allowed for request in again.requests] == [True, True, True, False]
    assert (result.ended_by, result.text) == (EndedBy.DENIAL_CAP, "again ")
    assert world.tools.ran == []


async def test_t45_a_waiting_call_is_not_denied_along_with_an_equal_one() -> None:
    world = World([two_calls()], *asking())
    await paused(world)
    world.asked.clear()
    second = await world.turn(denied_call_ids=frozenset({IDENTITY}))
    assert [one.call_id for one in world.journal.of(ToolSettled)] == ["call_1_1_0"]
    assert [one.call_id for one in second.pending_approvals] == ["call_1_1_1"]


async def test_t45_a_second_equal_dangling_call_pends_beside_a_denied_one() -> None:
    world = World([two_calls()], *asking())
    first = await paused(world)
    second = await world.turn(approval_decisions=[deny(first.pending_approvals[0])])
    assert [one.call_id for one in second.pending_approvals] == ["call_1_1_1"]
    assert len(world.journal.of(ToolSettled)) == 1
