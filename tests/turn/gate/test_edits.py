"""Approved calls: edits, notes, policy that changed since (turn.md 6.4, 6.5, T57 to T65)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from app.engine.messages import UserMessage, UserText
from app.log.calls import CallGated, PolicyRechecked, ToolCompleted, ToolSettled, ToolStarted
from app.policy.capability import ALL_CAPABILITIES, ORDINARY
from app.policy.grants import GrantPolicy
from app.turn.ports import (
    DispatchDeny,
    DispatchModify,
    DispatchRequireApproval,
    FailureKind,
    ToolInvocation,
    ToolOutcome,
)
from app.turn.result import EndedBy
from app.turn.transcript import Note
from tests.support.turn.provider import called, reply, said
from tests.support.turn.tools import EGRESS, POST, READ, WRITE, MemoryTool
from tests.support.turn.world import World, approve

# SHA-256 of {"n":1} and of {"n":2}.
DIGEST_OF_1 = "2bfd14f43d17fc7cea24e0917a8879b4b2f880b8baeec1b9d90fbaad655e71bd"
DIGEST_OF_2 = "363379742f80b51bdb9206579af7754911543079b9399cb3fc315fb199f476e8"
SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}}


def world_of(**tool: Any) -> World:
    tool = {"required": POST, "asks": True, **tool}
    return World(
        [reply(called("c1", "post", {"n": 1})), reply(said("ok"))], MemoryTool("post", **tool)
    )


async def resumed(world: World, **decision: Any) -> World:
    first = await world.turn()
    await world.turn(approval_decisions=[approve(first.pending_approvals[0], **decision)])
    return world


async def test_t57_the_edited_bytes_execute() -> None:
    world = await resumed(world_of(), edit='{"n":2}')
    assert world.tools.calls[0].args_canonical == b'{"n":2}'
    (started,) = world.journal.of(ToolStarted)
    assert started.args_sha256 == DIGEST_OF_2


@pytest.mark.parametrize("edit", ["", '{"n":1.0}'], ids=["no-arguments", "equal-arguments"])
async def test_t58_without_an_edit_the_proposal_runs_and_no_edit_is_told(edit: str) -> None:
    world = await resumed(world_of(), edit=edit, note="careful")
    assert world.tools.calls[0].args_canonical == b'{"n":1}'
    assert world.journal.of(ToolCompleted)[0].result == '{"ran":"post"}'


async def test_t60_an_edit_that_is_vetoed_by_now_gives_the_reason_and_runs_nothing() -> None:
    world = world_of()
    first = await world.turn()
    world.tools.by_name["post"].decision = DispatchDeny("not on Sundays")
    await world.turn(approval_decisions=[approve(first.pending_approvals[0], edit='{"n":2}')])
    (settled,) = world.journal.of(ToolSettled)
    assert settled.result == '{"error":"not on Sundays","code":"denied_by_policy"}'
    assert world.tools.ran == []


@pytest.mark.parametrize(
    ("edit", "outcome"),
    [
        pytest.param('{"n":"x"}', "invalid_arguments", id="off-schema"),
        pytest.param('{"n":1,"n":2}', "malformed_arguments", id="malformed"),
    ],
)
async def test_an_edit_that_no_longer_holds_runs_nothing(edit: str, outcome: str) -> None:
    world = await resumed(world_of(parameters=SCHEMA), edit=edit)
    assert [one.outcome for one in world.journal.of(ToolSettled)] == [outcome]
    assert world.tools.ran == []


@pytest.mark.parametrize("is_denied", [False, True], ids=["edited", "denied"])
async def test_a_decision_comes_before_the_schema_of_the_proposal(*, is_denied: bool) -> None:
    """Rows 6 and 7 (turn.md 3.4): what would run is held against the schema, and nothing else."""
    world = world_of()
    first = await world.turn()
    world.tools.by_name["post"].parameters = {"properties": {"n": {"type": "string"}}}
    decision = approve(first.pending_approvals[0], edit='{"n":"two"}')
    await world.turn(approval_decisions=[replace(decision, approved=not is_denied)])
    assert [call.args_canonical for call in world.tools.calls] == (
        [] if is_denied else [b'{"n":"two"}']
    )
    outcomes = [one.outcome for one in world.journal.of(ToolSettled)]
    assert outcomes == (["denied"] if is_denied else [])


async def test_t61_the_result_tells_of_the_edit_and_the_original_is_a_new_request() -> None:
    world = World(
        [reply(called("c1", "post", {"n": 1})), reply(called("c2", "post", {"n": 1}))],
        MemoryTool("post", POST, asks=True),
    )
    first = await world.turn()
    second = await world.turn(
        approval_decisions=[approve(first.pending_approvals[0], edit='{"n":2}')]
    )
    told = world.journal.of(ToolCompleted)[0].result
    assert "approver" in told[:200]
    assert told == (
        'The approver changed this call before it ran. Arguments used: {"n":2}\n{"ran":"post"}'
    )
    assert [one.args_json for one in second.pending_approvals] == ['{"n":1}']


async def test_t62_a_note_stands_right_after_the_results_and_in_no_message_of_the_turn() -> None:
    world = World(
        [
            reply(called("c1", "post", {"n": 1}), called("c2", "post", {"n": 2}, position=1)),
            reply(called("c3", "read", {})),
            reply(said("ok")),
        ],
        MemoryTool("post", POST, asks=True),
        MemoryTool("read"),
    )
    first = await world.turn()
    one, two = first.pending_approvals
    result = await world.turn(
        approval_decisions=[approve(two, note="second"), approve(one, note="first")]
    )
    after_resume, last = world.prepared.requests[1:]
    assert [texts_of(message) for message in after_resume.messages[-2:]] == [["first"], ["second"]]
    assert [message.role for message in last.messages] == [
        "user",
        "assistant",
        "user",
        "user",
        "user",
        "assistant",
        "user",
    ]
    assert not any("first" in texts_of(message) for message in result.messages)
    assert not any("first" in texts_of(message) for message in world.run.messages())


async def test_t62_notes_of_earlier_turns_keep_their_place() -> None:
    world = World([reply(called("c1", "read", {})), reply(said("ok"))], MemoryTool("read"))
    world.notes = (Note(after_messages=3, text="from before"),)
    await world.turn()
    assert texts_of(world.prepared.requests[1].messages[-1]) == ["from before"]


def texts_of(message: object) -> list[str]:
    if not isinstance(message, UserMessage):
        return []
    return [part.text for part in message.content if isinstance(part, UserText)]


async def test_t63_the_signed_bytes_run_although_policy_would_rewrite_them_now() -> None:
    world = world_of()
    first = await world.turn()
    world.tools.by_name["post"].decision = DispatchModify({"n": 9})
    await world.turn(approval_decisions=[approve(first.pending_approvals[0])])
    assert world.tools.calls[0].args_canonical == b'{"n":1}'


async def test_t64_a_veto_added_after_approval_wins_and_is_recorded() -> None:
    world = world_of()
    first = await world.turn()
    world.tools.by_name["post"].decision = DispatchDeny("frozen")
    await world.turn(approval_decisions=[approve(first.pending_approvals[0])])
    assert world.tools.ran == []
    assert world.journal.of(PolicyRechecked) == [
        PolicyRechecked(call_id="call_1_1_0", tool="post", reason="frozen")
    ]
    assert world.journal.of(ToolSettled)[0].outcome == "denied_by_policy"


async def test_t64_a_ceiling_lowered_after_approval_wins_and_is_recorded() -> None:
    """T95: an approval does not reach beyond the ceiling."""
    world = world_of()
    first = await world.turn()
    world.agent = replace(world.agent, execution_ceiling=WRITE)
    await world.turn(approval_decisions=[approve(first.pending_approvals[0])])
    assert (world.tools.ran, world.journal.of(ToolSettled)[0].outcome) == ([], "outside_ceiling")
    (rechecked,) = world.journal.of(PolicyRechecked)
    assert "arbitrary-egress" in rechecked.reason


async def test_t64_a_pending_call_still_pends_when_the_rule_is_dropped() -> None:
    world = world_of()
    await world.turn()
    world.tools.by_name["post"].asks = False
    second = await world.turn()
    assert (second.ended_by, len(second.pending_approvals)) == (EndedBy.PAUSE, 1)
    assert len(world.journal.of(CallGated)) == 1


async def test_an_approved_call_that_still_asks_is_not_asked_again() -> None:
    world = world_of()
    first = await world.turn()
    world.tools.by_name["post"].decision = DispatchRequireApproval()
    await world.turn(approval_decisions=[approve(first.pending_approvals[0])])
    assert world.tools.ran == ["post"]


async def test_t65_a_required_set_that_grew_supersedes_the_request() -> None:
    world = world_of(required=EGRESS)
    first = await world.turn()
    world.tools.by_name["post"].required = ALL_CAPABILITIES
    second = await world.turn(approval_decisions=[approve(first.pending_approvals[0])])
    (pending,) = second.pending_approvals
    assert (pending.supersedes, pending.occurrence_turn_id) == ("appr_call_1_1_0", "turn_1")
    assert pending.missing == ALL_CAPABILITIES - ORDINARY
    assert world.tools.ran == []


async def test_f16_a_changed_definition_is_asked_about_anew() -> None:
    world = world_of()
    first = await world.turn()
    shown = first.pending_approvals[0].definition_digest
    decision = replace(approve(first.pending_approvals[0]), definition_digest="digest-before")
    second = await world.turn(approval_decisions=[decision])
    (pending,) = second.pending_approvals
    assert (pending.supersedes, pending.definition_digest) == ("appr_call_1_1_0", shown)
    assert pending.reason == "The definition of post has changed since this call was decided."
    fits = replace(approve(pending), definition_digest=shown)
    await world.turn(approval_decisions=[fits])
    assert world.tools.ran == ["post"]


async def test_a_superseding_request_outlives_taint_that_a_sibling_brings_in() -> None:
    world = World(
        [reply(called("c1", "post", {}), called("c2", "inbox", {}, position=1))],
        MemoryTool("post", EGRESS, asks=True),
        MemoryTool("inbox", WRITE, ingests=True),
    )
    first = await world.turn()
    world.tools.by_name["post"].required = ALL_CAPABILITIES
    world.tools.by_name["inbox"].required = READ
    second = await world.turn(approval_decisions=[approve(first.pending_approvals[0])])
    assert world.tools.ran == ["inbox"]
    assert [one.supersedes for one in second.pending_approvals] == ["appr_call_1_1_0"]


async def test_a_long_result_of_an_edited_call_is_kept_without_the_remark() -> None:
    async def body(call: ToolInvocation) -> ToolOutcome:
        return ToolOutcome(text="x" * 70_000)

    world = await resumed(world_of(body=body), edit='{"n":2}')
    assert world.journal.kept == {"call_1_1_0": "x" * 70_000}


async def test_a_required_set_that_grew_is_refused_where_nobody_is_present() -> None:
    world = world_of(required=EGRESS)
    first = await world.turn()
    world.tools.by_name["post"].required = ALL_CAPABILITIES
    result = await world.turn(
        approval_decisions=[approve(first.pending_approvals[0])], unattended=True
    )
    assert (result.pending_approvals, len(result.unattended_denials)) == ((), 1)


async def test_a_base_that_was_narrowed_is_a_required_set_that_grew() -> None:
    world = world_of(required=EGRESS)
    first = await world.turn()
    world.agent = replace(world.agent, grant_policy=GrantPolicy(base=WRITE))
    second = await world.turn(approval_decisions=[approve(first.pending_approvals[0])])
    assert [one.missing for one in second.pending_approvals] == [EGRESS]


async def test_t65_taint_that_arrived_after_emission_does_not_reopen_a_decided_call() -> None:
    world = world_of()
    first = await world.turn()
    assert first.pending_approvals[0].missing == frozenset()
    await world.turn(
        approval_decisions=[approve(first.pending_approvals[0])], untrusted_context_seed=True
    )
    assert world.tools.ran == ["post"]


async def test_t65_a_waiting_sibling_is_judged_by_the_taint_at_resume() -> None:
    world = World(
        [reply(called("c1", "post", {}), called("c2", "fetch", {}, position=1))],
        MemoryTool("post", POST, asks=True),
        MemoryTool("fetch", EGRESS),
    )
    first = await world.turn()
    assert [one.tool_name for one in first.pending_approvals] == ["post"]
    second = await world.turn(
        approval_decisions=[approve(first.pending_approvals[0])], untrusted_context_seed=True
    )
    assert [one.tool_name for one in second.pending_approvals] == ["fetch"]
    assert world.tools.ran == ["post"]


async def test_a_digest_that_differs_from_the_signed_one_fails_the_turn() -> None:
    world = world_of()
    first = await world.turn()
    decision = replace(approve(first.pending_approvals[0]), effective_sha256="0" * 64)
    result = await world.turn(approval_decisions=[decision])
    assert result.failure is not None
    assert (result.failure.kind, world.tools.ran) == (FailureKind.INTERNAL, [])


async def test_what_policy_refuses_by_now_is_refused_before_its_digest_is_looked_at() -> None:
    """The order of turn.md 6.4: a refusal is a result, and the turn goes on."""
    world = world_of()
    first = await world.turn()
    world.tools.by_name["post"].decision = DispatchDeny("frozen")
    decision = replace(approve(first.pending_approvals[0]), effective_sha256="0" * 64)
    result = await world.turn(approval_decisions=[decision])
    assert (result.failure, result.text) == (None, "ok")


async def test_a_digest_that_equals_the_signed_one_lets_the_call_run() -> None:
    world = world_of()
    first = await world.turn()
    decision = replace(approve(first.pending_approvals[0]), effective_sha256=DIGEST_OF_1)
    await world.turn(approval_decisions=[decision])
    assert world.tools.ran == ["post"]


async def test_an_approved_call_of_a_tool_that_is_not_advertised_is_not_redefined() -> None:
    """turn.md 4.2: a dangling call runs if the executor owns it, advertised or not."""
    hidden = MemoryTool("post", POST, asks=True, advertised=False)
    world = World([reply(called("c1", "post", {})), reply(said("ok"))], hidden)
    first = await world.turn()
    (pending,) = first.pending_approvals
    decision = replace(approve(pending), definition_digest=pending.definition_digest)
    result = await world.turn(approval_decisions=[decision])
    assert (result.pending_approvals, world.tools.ran) == ((), ["post"])
