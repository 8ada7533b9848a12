"""Turns nobody watches, and calls the sandbox would refuse (turn.md 7.5, 7.6, T107 to T110)."""

from __future__ import annotations

from typing import Any

import pytest

from app.log.calls import CallDeniedUnattended, CallGated, ToolSettled
from app.turn.options import Identity
from app.turn.ports import DispatchDeny
from app.turn.result import EndedBy, UnattendedDenial
from tests.support.turn.provider import called, reply, said
from tests.support.turn.tools import EGRESS, MemoryTool
from tests.support.turn.world import World, approve


def one_call(**tool: Any) -> World:
    return World([reply(called("c1", "post", {})), reply(said("ok"))], MemoryTool("post", **tool))


async def test_t107_t108_an_escalation_is_refused_with_a_reason_and_the_turn_ends_normally() -> (
    None
):
    world = one_call(required=EGRESS)
    result = await world.turn(unattended=True, untrusted_context_seed=True)
    assert (result.ended_by, result.text, result.pending_approvals) == (EndedBy.ANSWER, "ok", ())
    reason = "post needs a person's consent: it can send data to an address the model chooses."
    missing = ("arbitrary-egress",)
    assert result.unattended_denials == (UnattendedDenial("post", "{}", reason, missing),)
    (denial,) = world.journal.of(CallDeniedUnattended)
    assert (denial.reason, denial.missing) == (reason, missing)
    (settled,) = world.journal.of(ToolSettled)
    assert settled.outcome == "unattended_denied"
    assert "missing: arbitrary-egress" in settled.result


async def test_t108_the_ordinary_rule_gives_no_reason_and_nothing_missing() -> None:
    world = one_call(asks=True)
    result = await world.turn(unattended=True)
    assert result.unattended_denials == (UnattendedDenial("post", "{}", "", ()),)


async def test_t109_a_veto_is_no_unattended_denial() -> None:
    world = one_call(decision=DispatchDeny("no"))
    result = await world.turn(unattended=True)
    assert (result.unattended_denials, world.journal.of(CallDeniedUnattended)) == ((), [])


async def test_t109_without_the_flag_the_turn_pauses() -> None:
    assert (await one_call(asks=True).turn()).ended_by is EndedBy.PAUSE


async def test_decisions_forwarded_in_advance_apply() -> None:
    world = one_call(asks=True)
    await world.turn(unattended=True, approved_call_ids=frozenset({Identity("c1", "post", "{}")}))
    assert world.tools.ran == ["post"]


async def test_t110_with_the_flag_off_the_call_runs_into_the_sandbox() -> None:
    world = one_call(sandbox=True)
    await world.turn()
    assert world.tools.ran == ["post"]


@pytest.mark.parametrize("sandbox", [True, OSError("no sandbox")], ids=["denies", "raises"])
async def test_t110_with_the_flag_on_it_pauses_and_runs_in_the_signed_mode(
    sandbox: bool | Exception,
) -> None:
    world = one_call(sandbox=sandbox)
    first = await world.turn(escalate_sandbox_denials=True)
    (pending,) = first.pending_approvals
    assert (pending.sandbox_escalation, pending.reason) == (True, "")
    assert [one.rule for one in world.journal.of(CallGated)] == ["sandbox"]
    await world.turn(
        approval_decisions=[approve(pending, sandbox_mode="relaxed")],
        escalate_sandbox_denials=True,
    )
    assert [call.sandbox_mode for call in world.tools.calls] == ["relaxed"]


async def test_t110_a_call_the_sandbox_would_take_runs_unasked() -> None:
    world = one_call(sandbox=False)
    await world.turn(escalate_sandbox_denials=True)
    assert [call.sandbox_mode for call in world.tools.calls] == [None]


async def test_only_a_question_is_told_that_nobody_can_answer() -> None:
    """T125, T121."""
    batch = [
        called("q1", "ask_question", {}),
        called("d1", "__delegate_to", {}, position=1),
    ]
    world = World([reply(*batch), reply(said("ok"))])
    await world.turn(unattended=True)
    question, delegation = [one.result for one in world.journal.of(ToolSettled)]
    assert "answer" in question
    assert delegation == (
        '{"error":"There is no tool named \'__delegate_to\'.","code":"unknown_tool"}'
    )
