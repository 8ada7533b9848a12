"""Session approvals and remembered grants (turn.md 6.8, T97 to T106)."""

from __future__ import annotations

from typing import Any

import pytest

from app.log.approvals import ApprovalResolved
from app.log.calls import CallGated, GrantReplayed, PolicyRechecked, ToolStarted
from app.log.payload import CoveredBy
from app.policy.capability import NO_CAPABILITIES, Capability, CapabilitySet
from app.policy.grants import RememberedGrant, SessionApproval
from app.turn.ports import DispatchDeny
from app.turn.result import EndedBy, GrantReplayClear
from tests.support.turn.provider import called, reply, said
from tests.support.turn.tools import EGRESS, POST, WRITE, MemoryTool
from tests.support.turn.world import World, approve

SESSION = CoveredBy(kind="session", id="appr_0")
GRANT = CoveredBy(kind="grant", id="grant_1")


def session(covered: CapabilitySet = NO_CAPABILITIES) -> dict[str, SessionApproval]:
    return {"post": SessionApproval(covered, "appr_0")}


def grant(covered: CapabilitySet, tool: str = "post") -> dict[str, tuple[RememberedGrant, ...]]:
    return {tool: (RememberedGrant(covered, "grant_1", "hash"),)}


def one_call(**tool: Any) -> World:
    tool = {"required": EGRESS, "cacheable": True, **tool}
    return World([reply(called("c1", "post", {})), reply(said("ok"))], MemoryTool("post", **tool))


async def test_t97_a_session_approval_serves_any_arguments_and_again() -> None:
    world = World(
        [
            reply(called("c1", "post", {"n": 1})),
            reply(called("c2", "post", {"n": 2})),
            reply(said("ok")),
        ],
        MemoryTool("post", EGRESS, cacheable=True),
    )
    result = await world.turn(session_approved_tools=session(EGRESS), untrusted_context_seed=True)
    assert (result.text, world.tools.ran) == ("ok", ["post", "post"])
    assert [one.covered_by for one in world.journal.of(ToolStarted)] == [SESSION, SESSION]
    assert [(one.outcome, one.covered_by) for one in world.journal.of(CallGated)] == [
        ("escalate", SESSION)
    ] * 2


async def test_t98_more_missing_than_covered_asks() -> None:
    world = one_call(required=POST)
    result = await world.turn(session_approved_tools=session(EGRESS), untrusted_context_seed=True)
    assert [one.missing for one in result.pending_approvals] == [POST]


async def test_t99_a_tool_that_is_not_cacheable_asks() -> None:
    world = one_call(cacheable=False, asks=True)
    result = await world.turn(session_approved_tools=session())
    assert len(result.pending_approvals) == 1


async def test_t102_an_empty_set_serves_the_ordinary_rule() -> None:
    world = one_call(asks=True)
    assert (await world.turn(session_approved_tools=session())).text == "ok"


async def test_t102_under_sandbox_escalation_the_call_runs_in_the_ordinary_sandbox() -> None:
    world = one_call(sandbox=True)
    await world.turn(session_approved_tools=session(), escalate_sandbox_denials=True)
    assert [call.sandbox_mode for call in world.tools.calls] == [None]


async def test_t102_the_others_that_fit_run_on_resume_and_their_requests_end() -> None:
    world = World(
        [
            reply(*[called(f"c{n}", "post", {"n": n}, position=n) for n in range(3)]),
            reply(said("ok")),
        ],
        MemoryTool("post", EGRESS, asks=True, cacheable=True),
    )
    first = await world.turn()
    result = await world.turn(
        approval_decisions=[approve(first.pending_approvals[0])], session_approved_tools=session()
    )
    assert (result.text, len(world.tools.ran)) == ("ok", 3)
    assert [one.covered_by for one in world.journal.of(ToolStarted)] == [
        CoveredBy(kind="decision", id="appr_call_1_1_0"),
        SESSION,
        SESSION,
    ]
    assert [
        (one.approval_id, one.status, one.by) for one in world.journal.of(ApprovalResolved)
    ] == [
        ("appr_call_1_1_1", "approved", "session"),
        ("appr_call_1_1_2", "approved", "session"),
    ]


async def test_a_request_the_session_approval_does_not_fit_stays_open() -> None:
    world = one_call(required=POST)
    await world.turn(untrusted_context_seed=True)
    result = await world.turn(session_approved_tools=session(EGRESS), untrusted_context_seed=True)
    assert (result.ended_by, len(result.pending_approvals)) == (EndedBy.PAUSE, 1)


@pytest.mark.parametrize("tightened", ["veto", "ceiling"])
async def test_a_request_that_policy_refuses_by_now_is_not_served(tightened: str) -> None:
    world = one_call(asks=True)
    await world.turn()
    if tightened == "veto":
        world.tools.by_name["post"].decision = DispatchDeny("no")
    else:
        world.tools.by_name["post"].required = EGRESS
        world.agent = type(world.agent)(name="t", model="m", execution_ceiling=WRITE)
    result = await world.turn(session_approved_tools=session())
    assert (len(result.pending_approvals), world.tools.ran) == (1, [])


async def test_a_call_it_has_answered_is_refused_when_policy_refuses_it_by_now() -> None:
    """Nobody is asked once more about what no consent could let run (I8, I24)."""
    world = one_call(asks=True)
    await world.turn()
    world.known_of_calls = {"approval_id": None}
    world.tools.by_name["post"].decision = DispatchDeny("closed")
    result = await world.turn(session_approved_tools=session())
    assert (result.pending_approvals, world.tools.ran, result.text) == ((), [], "ok")
    assert [one.reason for one in world.journal.of(PolicyRechecked)] == ["closed"]


async def test_a_request_the_log_has_no_id_for_is_served_without_ending_one() -> None:
    world = one_call(asks=True)
    await world.turn()
    world.known_of_calls = {"approval_id": None}
    await world.turn(session_approved_tools=session())
    assert (world.tools.ran, world.journal.of(ApprovalResolved)) == (["post"], [])


async def test_t103_a_remembered_grant_lifts_the_taint_and_leaves_a_trace() -> None:
    world = one_call()
    result = await world.turn(remembered_grants=grant(EGRESS), untrusted_context_seed=True)
    cleared = ("arbitrary-egress",)
    assert (result.text, result.tainted) == ("ok", True)
    assert result.grant_replays == (
        GrantReplayClear("call_1_1_0", "post", "grant_1", "hash", cleared),
    )
    assert [one.cleared for one in world.journal.of(GrantReplayed)] == [cleared]
    covered = CoveredBy(kind="grant", id="grant_1")
    assert [one.covered_by for one in world.journal.of(ToolStarted)] == [covered]
    assert [(one.outcome, one.covered_by) for one in world.journal.of(CallGated)] == [
        ("allow", covered)
    ]
    start = next(commit for commit in world.journal.commits if len(commit) > 3)
    assert [fact.payload.TYPE for fact in start][-2:] == ["tool.started", "grant.replayed"]


async def test_t103_on_a_clean_context_a_grant_leaves_no_trace() -> None:
    world = one_call()
    result = await world.turn(remembered_grants=grant(EGRESS))
    assert (result.grant_replays, world.tools.ran) == ((), ["post"])
    assert [one.covered_by for one in world.journal.of(ToolStarted)] == [None]


async def test_without_a_grant_the_call_asks() -> None:
    world = one_call()
    assert len((await world.turn(untrusted_context_seed=True)).pending_approvals) == 1


@pytest.mark.parametrize(
    ("grants", "missing"),
    [
        pytest.param(grant(POST, tool="other"), POST, id="another-tool"),
        pytest.param(grant(EGRESS), frozenset({Capability.MUTATE_EXTERNAL}), id="partial-cover"),
    ],
)
async def test_t105_another_tool_or_a_partial_cover_asks(
    grants: dict[str, tuple[RememberedGrant, ...]], missing: CapabilitySet
) -> None:
    world = one_call(required=POST)
    result = await world.turn(remembered_grants=grants, untrusted_context_seed=True)
    assert [one.missing for one in result.pending_approvals] == [missing]
    assert result.grant_replays == ()


async def test_t106_a_grant_satisfies_neither_the_consent_rule_nor_a_veto() -> None:
    asking = one_call(asks=True)
    result = await asking.turn(remembered_grants=grant(EGRESS), untrusted_context_seed=True)
    assert len(result.pending_approvals) == 1
    assert [(one.rule, one.covered_by) for one in asking.journal.of(CallGated)] == [
        ("consent", None)
    ]
    vetoed = one_call(decision=DispatchDeny("no"))
    result = await vetoed.turn(remembered_grants=grant(EGRESS), untrusted_context_seed=True)
    assert (result.text, vetoed.tools.ran, result.grant_replays) == ("ok", [], ())


async def test_f107_standing_consents_serve_an_unattended_run_alike() -> None:
    for given, gated in (
        ({"session_approved_tools": session(EGRESS)}, ("escalate", "capabilities", SESSION)),
        ({"remembered_grants": grant(EGRESS)}, ("allow", "none", GRANT)),
    ):
        attended, unattended = one_call(), one_call()
        first = await attended.turn(untrusted_context_seed=True, **given)
        second = await unattended.turn(untrusted_context_seed=True, unattended=True, **given)
        assert first == second
        for world in (attended, unattended):
            assert world.tools.ran == ["post"]
            (told,) = world.journal.of(CallGated)
            assert (told.outcome, told.rule, told.covered_by) == gated


async def test_a_worker_has_no_share_in_its_parents_consents() -> None:
    world = one_call()
    result = await world.turn(
        session_approved_tools=session(EGRESS),
        remembered_grants=grant(EGRESS),
        untrusted_context_seed=True,
        is_delegated_worker=True,
    )
    assert len(result.pending_approvals) == 1
