"""The main job: an answer, an unasked call, a pause, and a resume that was approved or denied."""

from __future__ import annotations

from app.log.calls import ToolCompleted, ToolSettled, ToolStarted
from app.turn.result import EndedBy
from tests.support.turn.provider import called, reply, said
from tests.support.turn.tools import POST, MemoryTool
from tests.support.turn.world import World, approve, deny


async def test_a_plain_answer_costs_two_commits() -> None:
    world = World([reply(said("hel"), said("lo"), usage=(3, 2))])
    result = await world.turn()
    assert (result.text, result.ended_by, result.stop, result.steps) == (
        "hello",
        EndedBy.ANSWER,
        "stop",
        1,
    )
    assert [[fact.payload.TYPE for fact in commit] for commit in world.journal.commits] == [
        ["step.started"],
        ["message.assistant", "step.completed"],
    ]


async def test_an_allowed_call_runs_and_its_result_reaches_the_model() -> None:
    world = World(
        [reply(called("c1", "read", {"b": 1, "a": 2})), reply(said("done"))], MemoryTool("read")
    )
    result = await world.turn()
    assert (result.text, result.steps, result.executed_calls) == ("done", 2, 1)
    assert world.tools.calls[0].args_canonical == b'{"a":2,"b":1}'
    assert world.tools.calls[0].idempotency_key == "run_1:call_1_1_0"
    assert [[fact.payload.TYPE for fact in commit] for commit in world.journal.commits] == [
        ["step.started"],
        ["message.assistant", "call.gated", "tool.started"],
        ["tool.completed", "step.completed", "step.started"],
        ["message.assistant", "step.completed"],
    ]


async def test_t27_a_call_that_needs_consent_pauses_the_turn_and_does_not_run() -> None:
    world = World([reply(called("c1", "post", {"url": "x"}))], MemoryTool("post", POST, asks=True))
    result = await world.turn()
    (pending,) = result.pending_approvals
    assert result.ended_by is EndedBy.PAUSE
    assert (pending.tool_name, pending.title, pending.args_json) == (
        "post",
        "Title of post",
        '{"url":"x"}',
    )
    assert (pending.reason, pending.missing, pending.required) == ("", frozenset(), POST)
    assert world.tools.ran == []
    assert world.journal.types == ["step.started", "message.assistant", "call.gated"]


async def test_t29_an_approval_runs_the_call_once_before_the_model_is_asked() -> None:
    world = World(
        [reply(called("c1", "post", {"url": "x"})), reply(said("sent"))],
        MemoryTool("post", POST, asks=True),
    )
    paused = await world.turn()
    result = await world.turn(approval_decisions=[approve(paused.pending_approvals[0])])
    assert (result.text, result.steps, result.executed_calls) == ("sent", 1, 1)
    assert world.tools.ran == ["post"]
    assert world.journal.types[3:] == [
        "tool.started",
        "tool.completed",
        "step.completed",
        "step.started",
        "message.assistant",
        "step.completed",
    ]
    (started,) = world.journal.of(ToolStarted)
    assert started.covered_by is not None
    assert (started.covered_by.kind, started.covered_by.id) == ("decision", "appr_call_1_1_0")
    assert world.journal.of(ToolCompleted)[0].result == '{"ran":"post"}'


async def test_t32_a_denial_is_the_fixed_result_and_runs_nothing() -> None:
    world = World(
        [reply(called("c1", "post", {"url": "x"})), reply(said("pity"))],
        MemoryTool("post", POST, asks=True),
    )
    paused = await world.turn()
    result = await world.turn(approval_decisions=[deny(paused.pending_approvals[0])])
    assert (result.text, result.pending_approvals, world.tools.ran) == ("pity", (), [])
    (settled,) = world.journal.of(ToolSettled)
    assert settled.outcome == "denied"
    assert settled.result == '{"approved":false,"error":"denied by human approver"}'
