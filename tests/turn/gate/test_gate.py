"""The gate, the ceiling and taint as a turn applies them (turn.md 5, T81 to T96)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pytest

from app.engine.messages import (
    AssistantMessage,
    AssistantText,
    Message,
    ToolCall,
    ToolResult,
    ToolResultText,
    UserMessage,
)
from app.log.calls import CallGated, ToolSettled
from app.log.runs import StepStarted
from app.policy.capability import ALL_CAPABILITIES, Capability, CapabilitySet
from app.policy.grants import SessionApproval
from app.policy.taint import Trust
from app.turn.agent import BoundAgent
from app.turn.options import Identity
from app.turn.ports import DispatchDeny, DispatchRequireApproval, FailureKind, ProviderError
from tests.support.turn.provider import called, cut, reply, said, searched
from tests.support.turn.tools import CONNECTOR, EGRESS, POST, READ, WRITE, MemoryTool
from tests.support.turn.world import World, approve


def one_call(**tool: Any) -> World:
    return World([reply(called("c1", "post", {})), reply(said("ok"))], MemoryTool("post", **tool))


async def test_t81_a_veto_stands_above_missing_capabilities() -> None:
    world = one_call(required=ALL_CAPABILITIES, decision=DispatchDeny("never"))
    result = await world.turn()
    assert result.pending_approvals == ()
    assert world.journal.of(ToolSettled)[0].result == '{"error":"never","code":"denied_by_policy"}'
    (gated,) = world.journal.of(CallGated)
    assert (gated.outcome, gated.rule, gated.reason) == ("deny", "veto", "never")


async def test_t81_an_approval_does_not_satisfy_a_veto() -> None:
    world = one_call(required=ALL_CAPABILITIES, decision=DispatchDeny("never"))
    approved = frozenset({Identity("c1", "post", "{}")})
    result = await world.turn(approved_call_ids=approved)
    assert (result.pending_approvals, world.tools.ran) == ((), [])
    assert world.journal.of(ToolSettled)[0].result == '{"error":"never","code":"denied_by_policy"}'


@dataclass(frozen=True)
class Asked:
    id: str
    tool: dict[str, Any]
    rule: str
    missing: CapabilitySet


ASKED = [
    Asked("the-consent-rule", {"asks": True}, "consent", frozenset()),
    Asked("pre-dispatch", {"decision": DispatchRequireApproval()}, "consent", frozenset()),
    Asked(
        "never-granted",
        {"required": frozenset({Capability.GRANT_ACCESS})},
        "capabilities",
        frozenset({Capability.GRANT_ACCESS}),
    ),
]


@pytest.mark.parametrize("case", ASKED, ids=lambda case: case.id)
async def test_t82_t87_who_asks_and_what_is_missing(case: Asked) -> None:
    world = one_call(**case.tool)
    result = await world.turn()
    (pending,) = result.pending_approvals
    assert (pending.missing, bool(pending.reason)) == (case.missing, bool(case.missing))
    (gated,) = world.journal.of(CallGated)
    assert (gated.outcome, gated.rule) == ("escalate", case.rule)


async def test_t87_a_session_approval_does_not_serve_an_access_granting_tool() -> None:
    grant = frozenset({Capability.GRANT_ACCESS})
    world = one_call(required=grant, cacheable=True)
    result = await world.turn(session_approved_tools={"post": SessionApproval(grant, "appr_0")})
    assert len(result.pending_approvals) == 1


@pytest.mark.parametrize(
    ("required", "asks"),
    [
        pytest.param(EGRESS, True, id="egress"),
        pytest.param(POST, True, id="mutation"),
        pytest.param(WRITE, False, id="local"),
        pytest.param(CONNECTOR, False, id="connector-read"),
    ],
)
async def test_t84_under_taint_egress_and_mutation_ask_and_local_calls_do_not(
    required: CapabilitySet, asks: bool
) -> None:
    world = one_call(required=required)
    result = await world.turn(untrusted_context_seed=True)
    assert bool(result.pending_approvals) is asks


async def test_t85_a_tool_nobody_registered_asks_on_a_clean_context() -> None:
    world = one_call(required=ALL_CAPABILITIES, ingests=True)
    assert len((await world.turn()).pending_approvals) == 1


async def test_t88_untrusted_content_in_one_step_binds_the_next() -> None:
    world = World(
        [reply(called("c1", "inbox", {})), reply(called("c2", "fetch", {}))],
        MemoryTool("inbox", READ, ingests=True),
        MemoryTool("fetch", EGRESS),
    )
    result = await world.turn()
    assert [one.tool_name for one in result.pending_approvals] == ["fetch"]
    assert [call.tainted for call in world.tools.calls] == [False]
    assert [step.tainted for step in world.journal.of(StepStarted)] == [False, True]
    clean, tainted = (step.granted for step in world.journal.of(StepStarted))
    assert "arbitrary-egress" in clean
    assert tainted == ("fixed-connector-read", "local-read", "local-write")


async def test_t88_in_one_batch_on_a_clean_context_both_run() -> None:
    world = World(
        [reply(called("c1", "inbox", {}), called("c2", "fetch", {}, position=1)), reply(said("x"))],
        MemoryTool("inbox", READ, ingests=True),
        MemoryTool("fetch", EGRESS),
    )
    result = await world.turn()
    assert (result.text, sorted(world.tools.ran)) == ("x", ["fetch", "inbox"])


async def test_a_tool_is_told_whether_the_context_it_writes_from_is_tainted() -> None:
    world = one_call(required=WRITE)
    await world.turn(untrusted_context_seed=True)
    assert [call.tainted for call in world.tools.calls] == [True]


async def test_t89_the_durable_verdict_taints_a_clean_transcript() -> None:
    world = one_call(required=EGRESS)
    assert (await world.turn(untrusted_context_seed=True)).tainted
    clean = one_call(required=EGRESS)
    result = await clean.turn()
    assert (result.pending_approvals, clean.tools.ran) == ((), ["post"])


def history_of(tool: str, arguments: str = "{}") -> list[Message]:
    call = ToolCall.from_wire("h1", tool, arguments, turn=1, position=0)
    return [
        UserMessage.of_text("before"),
        AssistantMessage(content=(call,)),
        UserMessage(content=(ToolResult.of(call, (ToolResultText(text="x"),)),)),
        AssistantMessage(content=(AssistantText(text="ok"),)),
    ]


@pytest.mark.parametrize(
    ("history", "tainted"),
    [
        pytest.param(history_of("inbox"), True, id="a-tool-that-ingests"),
        pytest.param(history_of("gone"), True, id="a-tool-nobody-knows"),
        pytest.param(history_of("read"), False, id="t91-a-first-party-tool"),
        pytest.param(history_of("inbox", "["), False, id="a-malformed-call-never-ran"),
    ],
)
async def test_t91_results_in_the_transcript_taint_by_their_tool(
    history: list[Message], tainted: bool
) -> None:
    world = World(
        [reply(said("ok"))],
        MemoryTool("inbox", READ, ingests=True),
        MemoryTool("read", READ),
        history=history,
    )
    assert (await world.turn()).tainted is tainted


async def test_a_refusal_of_an_ingesting_tool_taints_neither_this_turn_nor_the_next() -> None:
    world = World(
        [
            reply(called("c1", "post", {})),
            reply(called("c2", "nope", {})),
            reply(called("c3", "post", {"x": 1})),
            reply(called("c4", "fetch", {})),
            reply(said("ok")),
        ],
        MemoryTool("post", POST, asks=True, ingests=True),
        MemoryTool("fetch", EGRESS),
    )
    first = await world.turn()
    refusal = replace(approve(first.pending_approvals[0]), approved=False)
    second = await world.turn(approval_decisions=[refusal])
    refusal = replace(approve(second.pending_approvals[0], turn_id="turn_2"), approved=False)
    third = await world.turn(approval_decisions=[refusal])
    assert (third.text, third.tainted, world.tools.ran) == ("ok", False, ["fetch"])


async def test_t93_grounded_text_binds_the_next_step() -> None:
    world = World(
        [
            reply(searched(), said("found"), called("c1", "fetch", {})),
            reply(called("c2", "fetch", {})),
        ],
        MemoryTool("fetch", EGRESS),
    )
    result = await world.turn(native_search_allowed=True)
    assert (result.grounded, world.tools.ran) == (True, ["fetch"])
    assert len(result.pending_approvals) == 1
    tags = [fact.trust for fact in world.journal.facts if fact.payload.TYPE == "message.assistant"]
    assert tags == [Trust.QUARANTINED_CONTENT, Trust.UNSPECIFIED]


@pytest.mark.parametrize("allowed", [True, False])
async def test_text_of_a_stream_that_broke_while_it_could_search_is_untrusted(
    allowed: bool,
) -> None:
    broken = ProviderError(FailureKind.UNAVAILABLE, "gone")
    world = World([cut(said("found"), broken)])
    await world.turn(native_search_allowed=allowed)
    tags = [fact.trust for fact in world.journal.facts if fact.payload.TYPE == "message.assistant"]
    assert tags == [Trust.QUARANTINED_CONTENT if allowed else Trust.UNSPECIFIED]


async def test_an_untrusted_description_taints_the_turn_that_offers_it() -> None:
    world = one_call(required=EGRESS, description_trust=Trust.QUARANTINED_CONTENT)
    result = await world.turn()
    assert len(result.pending_approvals) == 1
    assert world.journal.facts[0].trust is Trust.QUARANTINED_CONTENT


NO_EGRESS = BoundAgent(
    name="tester",
    model="prepared",
    execution_ceiling=ALL_CAPABILITIES - {Capability.ARBITRARY_EGRESS},
)


async def test_t95_the_ceiling_refuses_attended_and_clean_calls() -> None:
    world = World(
        [reply(called("c1", "shell", {}), called("c2", "read", {}, position=1)), reply(said("ok"))],
        MemoryTool("shell", WRITE | EGRESS, asks=True),
        MemoryTool("read", READ),
        agent=NO_EGRESS,
    )
    result = await world.turn()
    assert (result.pending_approvals, world.tools.ran) == ((), ["read"])
    (settled,) = world.journal.of(ToolSettled)
    assert settled.outcome == "outside_ceiling"
    assert "arbitrary-egress" in settled.result
    refused, free = world.journal.of(CallGated)
    assert (refused.outcome, refused.rule) == ("deny", "ceiling")
    assert (free.outcome, free.rule) == ("allow", "none")


async def test_t96_a_call_within_the_ceiling_asks_under_taint() -> None:
    world = one_call(required=EGRESS)
    world.agent = replace(world.agent, execution_ceiling=EGRESS)
    assert len((await world.turn(untrusted_context_seed=True)).pending_approvals) == 1


async def test_rules_that_cannot_be_evaluated_refuse() -> None:
    world = one_call(decision_error=TimeoutError("pattern"))
    await world.turn()
    (settled,) = world.journal.of(ToolSettled)
    assert settled.outcome == "denied_by_policy"
    assert world.tools.ran == []
