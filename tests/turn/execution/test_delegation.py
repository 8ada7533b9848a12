"""Delegating: what is offered, who works, how many may, and whose result is whose (turn.md 7.1)."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from typing_extensions import override

from app.log.calls import (
    DelegateCompleted,
    DelegateStarted,
    MessageAssistant,
    ToolCompleted,
    ToolFailed,
    ToolSettled,
    ToolStarted,
)
from app.log.payload import WorkerRef
from app.turn.ports import ToolInvocation, ToolOutcome
from app.turn.stream import TextDelta
from tests.support.turn.journal import KeptStream
from tests.support.turn.provider import called, reply, said
from tests.support.turn.tools import EGRESS, MemoryTool
from tests.support.turn.workers import SharedInMemory, delegated, worker
from tests.support.turn.world import World

if TYPE_CHECKING:
    from app.turn.transcript import Transcript


def codes(world: World) -> list[str]:
    return [settled.outcome for settled in world.journal.of(ToolSettled)]


async def test_without_descriptors_there_is_no_such_tool() -> None:
    """T121, F113: not offered, and called anyway it is unknown."""
    world = World([reply(delegated("d1", "researcher")), reply(said("ok"))])
    result = await world.turn()
    assert (result.text, codes(world)) == ("ok", ["unknown_tool"])
    assert world.prepared.requests[0].tools == ()


async def test_a_worker_works_alone_and_its_answer_is_an_ordinary_result() -> None:
    researcher = worker("researcher", [reply(said("42"), usage=(5, 7))])
    world = World(
        [reply(delegated("d1", "agents/researcher", "add", context="1 + 41")), reply(said("so 42"))]
    )
    result = await world.turn(delegate_descriptors=[researcher.descriptor])
    assert result.text == "so 42"
    (request,) = researcher.provider.requests
    assert (request.instructions, request.model) == ("You are researcher.", "small")
    assert request.user_text == "add\n\nContext:\n1 + 41"
    assert len(request.messages) == 1
    (completed,) = world.journal.of(ToolCompleted)
    assert (completed.call_id, completed.result) == ("call_1_1_0", "42")
    (record,) = result.delegate_records
    assert (record.sub_agent_id, record.target, record.task) == ("call_1_1_0", "researcher", "add")
    assert (record.context, record.provider, record.model) == ("1 + 41", "prepared", "small")
    assert (record.succeeded, record.error, record.first_party) == (True, None, True)
    assert (record.usage.total_tokens, result.usage.total_tokens) == (12, 4)


async def test_what_a_worker_states_says_whose_it_is() -> None:
    post = MemoryTool("post", required=EGRESS)
    researcher = worker("researcher", [reply(called("c1", "post", {})), reply(said("42"))], post)
    stream = KeptStream()
    world = World([reply(delegated("d1", "researcher")), reply(said("ok"))])
    await world.turn(delegate_descriptors=[researcher.descriptor], stream_tx=stream)
    ref = WorkerRef(call_id="call_1_1_0", agent="researcher")
    (started,) = world.journal.of(ToolStarted)
    assert (started.call_id, started.worker) == ("call_1_1_0/call_1_1_0", ref)
    assert started.idempotency_key == "run_1:call_1_1_0/call_1_1_0"
    turns = {fact.turn_id for fact in world.journal.facts if isinstance(fact.payload, ToolStarted)}
    assert turns == {"turn_1/call_1_1_0/1"}
    assert TextDelta("42", ref) in stream.events
    assert TextDelta("ok") in stream.events
    own = [one.message_id for one in world.journal.of(MessageAssistant) if one.worker is None]
    assert len(own) == 2


async def test_a_worker_joins_the_batch_beside_ordinary_calls() -> None:
    """Results stand in source order, whatever is done first."""
    ran = asyncio.Event()

    async def wait(_: ToolInvocation) -> ToolOutcome:
        await ran.wait()
        return ToolOutcome(text="slow")

    async def tell(_: ToolInvocation) -> ToolOutcome:
        ran.set()
        return ToolOutcome(text="told")

    told = MemoryTool("tell", body=tell)
    researcher = worker("researcher", [reply(called("c1", "tell", {})), reply(said("42"))], told)
    world = World(
        [reply(called("c1", "slow", {}), delegated("d1", "researcher")), reply(said("ok"))],
        MemoryTool("slow", body=wait),
    )
    await world.turn(delegate_descriptors=[researcher.descriptor])
    own = [one.result for one in world.journal.of(ToolCompleted) if one.worker is None]
    assert own == ["slow", "42"]


async def test_two_tasks_for_one_worker_each_answer_their_own_call() -> None:
    """F114: whichever is done first."""
    first = asyncio.Event()

    async def body(call: ToolInvocation) -> ToolOutcome:
        if call.call_id.startswith("call_1_1_0/"):
            await first.wait()
        first.set()
        return ToolOutcome(text=call.call_id)

    def answers(number: int) -> Any:
        return reply(said(f"answer {number}"))

    researcher = worker(
        "researcher",
        [reply(called("c1", "look", {})), reply(called("c1", "look", {})), answers(1), answers(2)],
        MemoryTool("look", body=body),
    )
    batch = reply(delegated("d1", "researcher", "one"), delegated("d2", "researcher", "two"))
    world = World([batch, reply(said("ok"))])
    result = await world.turn(delegate_descriptors=[researcher.descriptor])
    own = {one.call_id: one.result for one in world.journal.of(ToolCompleted) if not one.worker}
    assert own == {"call_1_1_0": "answer 2", "call_1_1_1": "answer 1"}
    assert [record.task for record in result.delegate_records] == ["one", "two"]


async def test_what_is_over_the_fan_out_is_refused_at_once_and_leaves_no_record() -> None:
    """T122."""
    researcher = worker("researcher", [reply(said("1")), reply(said("2"))])
    batch = reply(*(delegated(f"d{n}", "researcher", f"task {n}") for n in range(3)))
    world = World([batch, reply(said("ok"))])
    result = await world.turn(delegate_descriptors=[researcher.descriptor], delegate_max_fanout=2)
    assert codes(world) == ["delegate_fanout_exceeded"]
    assert [record.task for record in result.delegate_records] == ["task 0", "task 1"]
    assert len(world.journal.of(DelegateStarted)) == len(world.journal.of(DelegateCompleted)) == 2


async def test_the_budget_holds_over_all_steps_of_the_turn() -> None:
    """T123."""
    researcher = worker("researcher", [reply(said(str(n))) for n in range(3)])
    two = [delegated("d1", "researcher"), delegated("d2", "researcher")]
    world = World([reply(*two), reply(*two), reply(said("ok"))])
    result = await world.turn(delegate_descriptors=[researcher.descriptor], delegate_turn_budget=3)
    assert codes(world) == ["delegate_budget_exceeded"]
    (refused,) = world.journal.of(ToolSettled)
    assert refused.call_id == "call_1_2_1"
    assert json.loads(refused.result)["code"] == "delegate_budget_exceeded"
    assert len(result.delegate_records) == 3


@pytest.mark.parametrize(
    ("asked", "in_batch", "in_turn"), [(1000, 16, 64), (None, 4, 8), (0, 0, 0), (-1, 0, 0)]
)
async def test_the_caps_have_defaults_and_bounds(
    asked: int | None, in_batch: int, in_turn: int
) -> None:
    """T124; zero means none."""
    batch = [delegated(f"d{n}", "researcher") for n in range(20)]
    replies = [reply(said("x"))] * 200
    researcher = worker("researcher", replies)
    options: dict[str, Any] = {"delegate_descriptors": [researcher.descriptor], "max_steps": 6}
    wide = World([*([reply(*batch)] * 5), reply(said("ok"))])
    result = await wide.turn(delegate_max_fanout=asked, delegate_turn_budget=1000, **options)
    assert len(result.delegate_records) == min(5 * in_batch, 64)
    long = World([*([reply(*batch)] * 5), reply(said("ok"))])
    result = await long.turn(delegate_max_fanout=16, delegate_turn_budget=asked, **options)
    assert len(result.delegate_records) == in_turn


async def test_a_worker_can_neither_delegate_nor_ask_questions() -> None:
    """T125."""
    calls = [delegated("d1", "researcher"), called("q1", "ask_question", {})]
    researcher = worker("researcher", [reply(*calls), reply(said("alone"))])
    world = World([reply(delegated("d1", "researcher")), reply(said("ok"))])
    await world.turn(delegate_descriptors=[researcher.descriptor])
    assert [tool.name for tool in world.prepared.requests[0].tools] == ["__delegate_to"]
    assert researcher.provider.requests[0].tools == ()
    results = [json.loads(one.result) for one in world.journal.of(ToolSettled)]
    assert [one["code"] for one in results] == ["unknown_tool", "unknown_tool"]
    assert "Nobody can answer" in results[1]["error"]


async def test_a_worker_that_is_given_agents_may_not_delegate_to_them_either() -> None:
    """T125: one level only, whoever binds the worker."""
    researcher = worker("researcher", [])
    world = World([reply(delegated("d1", "researcher")), reply(said("ok"))])
    await world.turn(delegate_descriptors=[researcher.descriptor], is_delegated_worker=True)
    assert world.prepared.requests[0].tools == ()
    assert (codes(world), researcher.provider.requests) == (["unknown_tool"], [])


async def test_a_worker_has_a_workspace_of_its_own_and_what_is_shared_is_recorded() -> None:
    """T125, the part about workers."""
    files = SharedInMemory()
    researcher = worker(
        "researcher",
        [reply(said("42"))],
        MemoryTool("look"),
        share_in=("reports/",),
        files=files,
    )
    world = World([reply(delegated("d1", "researcher")), reply(said("ok"))])
    result = await world.turn(delegate_descriptors=[researcher.descriptor])
    (scope,) = researcher.tools.scopes
    assert (scope.run_id, scope.call_id, scope.tools) == ("run_1", "call_1_1_0", ("look",))
    assert files.asked == [scope]
    assert result.delegate_records[0].shared_paths == ("reports/",)


async def test_without_a_workspace_the_worker_does_not_begin() -> None:
    researcher = worker("researcher", [])
    researcher.tools.worker_error = RuntimeError("full")
    world = World([reply(delegated("d1", "researcher")), reply(said("ok"))])
    result = await world.turn(delegate_descriptors=[researcher.descriptor])
    (failed,) = world.journal.of(ToolFailed)
    assert (failed.call_id, failed.code) == ("call_1_1_0", "tool_failed")
    (record,) = result.delegate_records
    assert (record.succeeded, record.provider, record.model) == (False, "", "")
    assert record.error == "no_workspace"


@pytest.mark.parametrize("target", ["nobody", "", "researcher/", "twin"])
async def test_a_target_that_is_not_one_agent_is_an_error_and_the_turn_goes_on(target: str) -> None:
    """T126: unknown or ambiguous; it is no delegation and is not counted."""
    known = [
        worker(name, [reply(said("1"))]).descriptor for name in ("researcher", "a/twin", "b/twin")
    ]
    batch = reply(delegated("d1", target), delegated("d2", "researcher"))
    world = World([batch, reply(said("ok"))])
    result = await world.turn(delegate_descriptors=known, delegate_max_fanout=1)
    assert codes(world) == ["unknown_delegate_target"]
    (refused,) = world.journal.of(ToolSettled)
    assert json.loads(refused.result)["code"] == "unknown_delegate_target"
    assert (result.text, len(result.delegate_records)) == ("ok", 1)


@pytest.mark.parametrize(
    "args", [{"target_agent_id": "researcher"}, {"target_agent_id": "researcher", "task": ""}]
)
async def test_a_delegation_without_a_task_is_an_error(args: dict[str, str]) -> None:
    researcher = worker("researcher", [])
    world = World([reply(called("d1", "__delegate_to", args)), reply(said("ok"))])
    await world.turn(delegate_descriptors=[researcher.descriptor])
    assert codes(world) == ["invalid_arguments"]


async def test_a_handoff_is_an_unknown_tool_even_where_delegating_is_possible() -> None:
    """T134."""
    researcher = worker("researcher", [])
    world = World([reply(called("h1", "__handoff_to", {})), reply(said("ok"))])
    await world.turn(delegate_descriptors=[researcher.descriptor])
    assert codes(world) == ["unknown_tool"]


class Resumed(World):
    """A world whose open batch, when the turn began, had one delegation that was done."""

    @override
    def transcript(self) -> Transcript:
        return replace(super().transcript(), delegated_in_batch=1)


async def test_what_an_earlier_batch_delegated_takes_no_place_in_this_one() -> None:
    """T122: the fan-out is that of one batch."""
    researcher = worker("researcher", [reply(said("42"))])
    world = Resumed([reply(delegated("d1", "researcher")), reply(said("ok"))])
    result = await world.turn(delegate_descriptors=[researcher.descriptor], delegate_max_fanout=1)
    assert (codes(world), len(result.delegate_records)) == ([], 1)
