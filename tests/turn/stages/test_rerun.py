"""Calls whose outcome is unknown, and turns a worker process lost (turn.md 4.3, T135 to T138)."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from app.log.calls import (
    MessageAssistant,
    PolicyRechecked,
    ToolCompleted,
    ToolSettled,
    ToolStarted,
)
from app.policy.capability import ALL_CAPABILITIES, NO_CAPABILITIES
from app.turn.options import Identity
from app.turn.ports import DispatchDeny
from app.turn.result import EndedBy, TurnResult
from tests.support.turn.provider import called, reply, said
from tests.support.turn.tools import EGRESS, POST, READ, WRITE, MemoryTool
from tests.support.turn.world import World, approve, deny


async def started(**tool: Any) -> World:
    """A run whose worker was lost right after the start of its one call."""
    world = World(
        [reply(called("c1", "post", {"n": 1})), reply(said("ok")), reply(said("ok"))],
        MemoryTool("post", **{"required": POST, **tool}),
    )
    await world.turn()
    world.crash(world.journal.types.index("tool.started") + 1)
    world.tools.calls.clear()
    world.prepared.requests.clear()
    return world


@pytest.mark.parametrize(
    "tool", [{"idempotent": True}, {"required": READ}], ids=["idempotent", "read-only"]
)
async def test_t135_an_idempotent_or_read_only_call_runs_again_with_the_same_key(
    tool: dict[str, Any],
) -> None:
    world = await started(**tool)
    result = await world.turn()
    assert (result.text, result.executed_calls) == ("ok", 1)
    first, second = world.journal.of(ToolStarted)
    assert first.idempotency_key == second.idempotency_key == "run_1:call_1_1_0"
    assert (first.attempt, second.attempt) == (1, 2)


async def test_t136_another_call_is_asked_about_and_the_used_decision_does_not_serve() -> None:
    world = World(
        [reply(called("c1", "post", {"n": 1})), reply(said("ok"))],
        MemoryTool("post", POST, asks=True),
    )
    first = await world.turn()
    used = approve(first.pending_approvals[0])
    await world.turn(approval_decisions=[used])
    world.crash(world.journal.types.index("tool.started") + 1)
    world.tools.calls.clear()
    second = await world.turn(approval_decisions=[used])
    (pending,) = second.pending_approvals
    assert (second.ended_by, pending.outcome_unknown) == (EndedBy.PAUSE, True)
    assert pending.reason == (
        "post was started before and its outcome is unknown: its effect may have happened."
        " Approving runs it again."
    )
    assert (pending.required, world.tools.ran) == (POST, [])


async def asked_again(**tool: Any) -> tuple[World, TurnResult]:
    world = await started(**tool)
    return world, await world.turn()


async def test_t136_approved_it_runs_once_more_under_the_same_key() -> None:
    world, asked = await asked_again()
    result = await world.turn(approval_decisions=[approve(asked.pending_approvals[0])])
    assert (result.ended_by, world.tools.ran) == (EndedBy.ANSWER, ["post"])
    assert [one.idempotency_key for one in world.journal.of(ToolStarted)] == [
        "run_1:call_1_1_0"
    ] * 2


@pytest.mark.parametrize("expired", [False, True])
async def test_t136_denied_or_expired_the_result_never_says_that_nothing_ran(
    expired: bool,
) -> None:
    world, asked = await asked_again()
    decision = deny(asked.pending_approvals[0], expired=expired)
    await world.turn(approval_decisions=[decision])
    (settled,) = world.journal.of(ToolSettled)
    assert settled.outcome == "outcome_unknown"
    assert '"code":"outcome_unknown"' in settled.result
    assert "may have happened" in settled.result
    assert world.tools.ran == []


async def test_an_undecided_re_run_stays_asked() -> None:
    world, _ = await asked_again()
    again = await world.turn()
    assert [one.outcome_unknown for one in again.pending_approvals] == [True]


@pytest.mark.parametrize("collection", ["approved_call_ids", "denied_call_ids"])
async def test_a_decision_without_a_turn_never_fits_a_started_call(collection: str) -> None:
    """turn.md 2.3: it is about a call that has not begun, and would run this one silently again."""
    world = await started()
    result = await world.turn(**{collection: frozenset({Identity("c1", "post", '{"n":1}')})})
    assert [one.outcome_unknown for one in result.pending_approvals] == [True]
    assert (world.tools.ran, world.journal.of(ToolSettled)) == ([], [])


async def test_t137_unattended_the_model_is_told_that_the_effect_may_have_happened() -> None:
    world = await started()
    result = await world.turn(unattended=True)
    assert (result.pending_approvals, world.tools.ran) == ((), [])
    (settled,) = world.journal.of(ToolSettled)
    assert settled.outcome == "outcome_unknown"
    assert "may have happened" in settled.result


async def test_t138_ids_that_repeat_across_steps_have_different_keys() -> None:
    world = World(
        [reply(called("c1", "read", {})), reply(called("c1", "read", {})), reply(said("ok"))],
        MemoryTool("read"),
    )
    await world.turn()
    keys = [call.idempotency_key for call in world.tools.calls]
    assert keys == ["run_1:call_1_1_0", "run_1:call_1_2_0"]


async def both_started() -> World:
    """A run whose worker was lost right after the starts of a repeatable call and of another."""
    world = World(
        [reply(called("c1", "write", {}), called("c2", "post", {}, position=1)), reply(said("ok"))],
        MemoryTool("write", WRITE, idempotent=True),
        MemoryTool("post", POST),
    )
    await world.turn()
    last_start = max(at for at, type_ in enumerate(world.journal.types) if type_ == "tool.started")
    world.crash(last_start + 1)
    world.tools.calls.clear()
    world.prepared._replies.append(reply(said("ok")))
    return world


async def test_a_re_run_that_nobody_ordered_waits_while_a_person_is_asked() -> None:
    """I14: the effect may not have happened before; it does not happen beside a question either."""
    world = await both_started()
    asked = await world.turn()
    assert [one.tool_name for one in asked.pending_approvals] == ["post"]
    assert world.tools.ran == []
    result = await world.turn(approval_decisions=[approve(asked.pending_approvals[0])])
    assert (result.text, world.tools.ran) == ("ok", ["write", "post"])
    assert {one.idempotency_key for one in world.tools.calls} == {
        "run_1:call_1_1_0",
        "run_1:call_1_1_1",
    }
    assert [one.attempt for one in world.journal.of(ToolStarted)] == [1, 1, 2, 2]


async def test_a_re_run_that_somebody_ordered_waits_for_nobody() -> None:
    world = await both_started()
    world.known_of_calls = {"is_ordered": True}
    asked = await world.turn()
    assert [one.tool_name for one in asked.pending_approvals] == ["post"]
    assert world.tools.ran == ["write"]


async def test_a_started_call_of_a_tool_that_is_gone_ends_in_the_unknown_outcome() -> None:
    """turn.md 4.3: that there is no such tool would say that the call did not run."""
    world = await started()
    del world.tools.by_name["post"]
    result = await world.turn()
    assert (result.text, result.pending_approvals) == ("ok", ())
    (settled,) = world.journal.of(ToolSettled)
    assert settled.outcome == "outcome_unknown"
    assert "may have happened" in settled.result


async def test_a_re_run_that_policy_refuses_ends_in_the_unknown_outcome() -> None:
    world = await started(idempotent=True)
    world.tools.by_name["post"].decision = DispatchDeny("frozen")
    await world.turn()
    assert [one.outcome for one in world.journal.of(ToolSettled)] == ["outcome_unknown"]
    assert [one.reason for one in world.journal.of(PolicyRechecked)] == ["frozen"]
    assert world.tools.ran == []


async def test_an_approved_re_run_that_is_off_schema_ends_in_the_unknown_outcome() -> None:
    world, asked = await asked_again()
    world.tools.by_name["post"].parameters = {"type": "object", "required": ["missing"]}
    await world.turn(approval_decisions=[approve(asked.pending_approvals[0])])
    assert [one.outcome for one in world.journal.of(ToolSettled)] == ["outcome_unknown"]


async def test_a_re_run_that_needs_more_than_was_covered_is_asked_about() -> None:
    world = await started(idempotent=True)
    world.tools.by_name["post"].required = ALL_CAPABILITIES
    result = await world.turn()
    assert [one.outcome_unknown for one in result.pending_approvals] == [True]


async def test_a_re_run_that_was_asked_about_stays_asked_though_policy_is_loosened() -> None:
    """turn.md 6.4: a pending call stays pending."""
    world = await started(idempotent=True)
    tool = world.tools.by_name["post"]
    tool.required = ALL_CAPABILITIES
    await world.turn()
    tool.required = POST
    again = await world.turn()
    assert [one.outcome_unknown for one in again.pending_approvals] == [True]
    assert world.tools.ran == []


async def test_a_re_run_that_needs_more_is_refused_where_nobody_is_present() -> None:
    world = await started(idempotent=True)
    world.tools.by_name["post"].required = ALL_CAPABILITIES
    await world.turn(unattended=True)
    assert [one.outcome for one in world.journal.of(ToolSettled)] == ["outcome_unknown"]


async def test_an_approved_re_run_that_needs_more_than_was_covered_is_asked_again() -> None:
    world, asked = await asked_again()
    decision = approve(asked.pending_approvals[0], covered=NO_CAPABILITIES)
    world.tools.by_name["post"].required = ALL_CAPABILITIES
    again = await world.turn(approval_decisions=[decision])
    (pending,) = again.pending_approvals
    assert (pending.outcome_unknown, pending.supersedes) == (True, "appr_call_1_1_0")


async def test_what_runs_again_are_the_arguments_that_ran() -> None:
    world = await started(idempotent=True)
    world.known_of_calls = {
        "started_args": '{"n":2}',
        "is_edited": True,
        "sandbox_mode": "relaxed",
    }
    await world.turn()
    (execution,) = world.tools.calls
    assert (execution.args_canonical, execution.sandbox_mode) == (b'{"n":2}', "relaxed")
    assert world.journal.of(ToolCompleted)[-1].result.startswith("The approver changed this call")


async def test_a_rewritten_call_runs_again_as_it_ran_and_no_approver_is_named() -> None:
    """The rules changed it (turn.md 7.7), and nothing rewrites it a second time."""
    world = await started(idempotent=True)
    world.known_of_calls = {"started_args": '{"n":2}'}
    await world.turn()
    (execution,) = world.tools.calls
    assert execution.args_canonical == b'{"n":2}'
    assert world.journal.of(ToolCompleted)[-1].result == '{"ran":"post"}'


async def test_unreadable_arguments_of_a_start_count_as_the_proposal() -> None:
    world = await started(idempotent=True)
    world.known_of_calls = {"started_args": "["}
    await world.turn()
    assert world.tools.calls[0].args_canonical == b'{"n":1}'


@pytest.mark.parametrize("is_edited", [True, False])
async def test_the_card_of_a_re_run_shows_the_arguments_that_ran(is_edited: bool) -> None:
    """An approver is said to have changed them if one did: a dispatch rule may have."""
    world = await started()
    world.known_of_calls = {"started_args": '{"n":2}', "is_edited": is_edited}
    asked = await world.turn()
    assert asked.pending_approvals[0].args_json == '{"n":2}'
    await world.turn(approval_decisions=[approve(asked.pending_approvals[0])])
    assert world.tools.calls[0].args_canonical == b'{"n":2}'
    told = world.journal.of(ToolCompleted)[-1].result
    assert told.startswith("The approver changed this call") is is_edited


SCRIPT = [
    reply(called("c1", "read", {}), called("c2", "write", {}, position=1)),
    reply(called("c1", "fetch", "["), called("c2", "fetch", {}, position=1)),
    reply(said("ok")),
]


def lossy_world(skip: int = 0) -> World:
    return World(
        SCRIPT[skip:],
        MemoryTool("read", READ),
        MemoryTool("write", WRITE),
        MemoryTool("fetch", EGRESS, idempotent=True),
    )


async def test_a_crash_after_every_fact_loses_no_call_and_repeats_no_effect() -> None:
    whole = lossy_world()
    await whole.turn()
    for kept in range(len(whole.journal.facts) + 1):
        world = lossy_world()
        await world.turn()
        world.crash(kept)
        ran_before = Counter(one.tool for one in world.journal.of(ToolStarted))
        world.tools.calls.clear()
        replies = len(world.journal.of(MessageAssistant))
        world.prepared._replies.extend(SCRIPT[replies:])
        result = await world.turn()
        if result.pending_approvals:
            result = await world.turn(
                approval_decisions=[deny(one) for one in result.pending_approvals]
            )
        assert (result.text, result.ended_by) == ("ok", EndedBy.ANSWER), kept
        assert ran_before["write"] + Counter(world.tools.ran)["write"] == 1, kept
        results = [one.call_id for one in world.journal.of(ToolCompleted)]
        results += [one.call_id for one in world.journal.of(ToolSettled)]
        assert sorted(results) == sorted(set(results)), kept
        assert len(results) == 4, kept
