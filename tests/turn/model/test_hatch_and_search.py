"""Unknown tools, the escape hatch and native search (turn.md 7.3, 7.4, T117 to T125)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from app.log.calls import RetrievalMissed, ToolSettled
from app.log.runs import StepStarted
from app.policy.capability import ALL_CAPABILITIES
from app.policy.taint import Trust
from app.turn.agent import BoundAgent
from tests.support.turn.provider import called, reply, said
from tests.support.turn.tools import EGRESS, READ, MemoryTool
from tests.support.turn.world import World

HIDDEN = MemoryTool("crm_find", READ, asks=True, advertised=False)


def world_of(*names: str) -> World:
    calls = [called(f"c{i}", name, {"q": 1}, position=i) for i, name in enumerate(names)]
    return World([reply(*calls), reply(said("ok"))], MemoryTool("read", READ), HIDDEN)


async def test_t117_with_the_hatch_off_an_unknown_tool_is_unknown_and_nobody_is_asked() -> None:
    world = world_of("find_customer")
    result = await world.turn()
    (settled,) = world.journal.of(ToolSettled)
    assert settled.result == (
        '{"error":"There is no tool named \'find_customer\'.","code":"unknown_tool"}'
    )
    assert (result.pending_approvals, world.tools.recovered) == ((), [])


async def test_t117_the_first_miss_appends_and_names_tools_and_the_second_is_ordinary() -> None:
    world = world_of("find_customer", "find_order")
    reserved = MemoryTool("ask_question").spec
    world.tools.recoverable = [HIDDEN.spec, MemoryTool("read").spec, reserved]
    await world.turn(escape_hatch=True)
    first, second = world.journal.of(ToolSettled)
    assert (first.outcome, second.outcome) == ("tools_now_available", "unknown_tool")
    assert "crm_find" in first.result
    assert world.journal.of(RetrievalMissed) == [
        RetrievalMissed(call_id="call_1_1_0", tool="find_customer", offered=("crm_find",))
    ]
    assert world.tools.recovered == [("find_customer", {"q": 1})]
    assert [spec.name for spec in world.prepared.requests[1].tools] == ["read", "crm_find"]


async def test_t118_a_recovered_tool_meets_the_ordinary_gate_when_re_issued() -> None:
    world = World(
        [reply(called("c1", "find_customer", {})), reply(called("c2", "crm_find", {}))],
        MemoryTool("read", READ),
        HIDDEN,
    )
    world.tools.recoverable = [HIDDEN.spec]
    result = await world.turn(escape_hatch=True)
    assert [one.title for one in result.pending_approvals] == ["Title of crm_find"]


@pytest.mark.parametrize("error", [None, OSError("index")], ids=["no-match", "raises"])
async def test_t119_a_first_miss_without_a_match_is_ordinary_and_uses_the_hatch_up(
    error: Exception | None,
) -> None:
    world = world_of("find_customer", "find_order")
    world.tools.recovery_error = error
    await world.turn(escape_hatch=True)
    assert [one.outcome for one in world.journal.of(ToolSettled)] == ["unknown_tool"] * 2
    assert len(world.tools.recovered) == 1


async def test_the_hatch_is_not_for_calls_an_earlier_turn_left_behind() -> None:
    world = world_of("find_customer")
    await world.turn()
    world.crash(world.journal.types.index("message.assistant") + 1)
    world.prepared._replies.append(reply(said("ok")))
    await world.turn(escape_hatch=True)
    assert [one.outcome for one in world.journal.of(ToolSettled)] == ["unknown_tool"]
    assert world.tools.recovered == []


async def test_an_owned_tool_that_is_not_advertised_meets_the_gate() -> None:
    world = world_of("crm_find")
    result = await world.turn()
    assert [one.tool_name for one in result.pending_approvals] == ["crm_find"]


async def test_a_recovered_untrusted_description_taints() -> None:
    world = world_of("find_customer")
    world.tools.recoverable = [replace(HIDDEN.spec, trust=Trust.QUARANTINED_CONTENT)]
    assert (await world.turn(escape_hatch=True)).tainted


NO_EGRESS = BoundAgent(name="t", model="m", execution_ceiling=ALL_CAPABILITIES - EGRESS)


@pytest.mark.parametrize(
    ("options", "agent", "on"),
    [
        pytest.param({"native_search_allowed": True}, None, True, id="allowed-and-clean"),
        pytest.param(
            {"native_search_allowed": True, "untrusted_context_seed": True},
            None,
            False,
            id="tainted",
        ),
        pytest.param({}, None, False, id="not-allowed"),
        pytest.param({"native_search_allowed": True}, NO_EGRESS, False, id="outside-the-ceiling"),
    ],
)
async def test_t120_native_search(
    options: dict[str, Any], agent: BoundAgent | None, on: bool
) -> None:
    world = World([reply(said("ok"))], agent=agent)
    await world.turn(**options)
    assert world.prepared.requests[0].web_search is on
    assert [step.native_search for step in world.journal.of(StepStarted)] == [on]


@pytest.mark.parametrize("name", ["__delegate_to", "ask_question", "__handoff_to"])
async def test_t121_t134_reserved_names_that_are_not_in_use_are_unknown_tools(name: str) -> None:
    world = world_of(name)
    await world.turn(escape_hatch=True)
    assert [one.outcome for one in world.journal.of(ToolSettled)] == ["unknown_tool"]
    assert world.tools.recovered == []


@pytest.mark.parametrize("options", [{"unattended": True}, {"is_delegated_worker": True}])
async def test_t125_a_question_where_nobody_can_answer_is_told_so(options: dict[str, bool]) -> None:
    world = world_of("ask_question")
    await world.turn(**options)
    (settled,) = world.journal.of(ToolSettled)
    assert "Nobody can answer" in settled.result


async def test_a_malformed_call_to_a_reserved_name_is_an_unknown_tool() -> None:
    world = World([reply(called("c1", "__handoff_to", "[")), reply(said("ok"))])
    await world.turn()
    assert [one.outcome for one in world.journal.of(ToolSettled)] == ["unknown_tool"]
