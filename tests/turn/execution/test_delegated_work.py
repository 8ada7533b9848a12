"""What binds a worker, and what comes back of it: taint, ceiling, failure, bounds (turn.md 7.1)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from typing_extensions import override

from app.log.calls import (
    DelegateCompleted,
    ToolCompleted,
    ToolFailed,
    ToolSettled,
)
from app.log.runs import StepStarted
from app.policy.capability import ALL_CAPABILITIES
from app.policy.taint import Trust
from app.turn.agent import BoundAgent
from app.turn.ports import FailureKind, ProviderError, StepRefused, ToolInvocation, ToolOutcome
from app.turn.result import EndedBy
from tests.support.turn.journal import MemoryJournal
from tests.support.turn.provider import called, reply, said
from tests.support.turn.tools import EGRESS, POST, WRITE, MemoryTool
from tests.support.turn.workers import SharedInMemory, delegated, worker
from tests.support.turn.world import World


def codes(world: World) -> list[str]:
    return [settled.outcome for settled in world.journal.of(ToolSettled)]


async def test_a_worker_begins_with_its_parents_taint() -> None:
    """T127, there."""
    researcher = worker("researcher", [reply(said("42"))])
    world = World([reply(delegated("d1", "researcher")), reply(said("ok"))])
    await world.turn(delegate_descriptors=[researcher.descriptor], untrusted_context_seed=True)
    (began,) = [one for one in world.journal.of(StepStarted) if one.worker is not None]
    assert began.tainted
    tags = {
        fact.payload.TYPE: fact.trust
        for fact in world.journal.facts
        if not _is_workers(fact.payload)
    }
    assert tags["delegate.started"] is tags["tool.completed"] is Trust.QUARANTINED_CONTENT


def _is_workers(payload: Any) -> bool:
    return getattr(payload, "worker", None) is not None


async def test_a_worker_that_read_untrusted_content_taints_its_parent() -> None:
    """T127, back; and not before the answer is there."""
    fetch = MemoryTool("fetch", ingests=True)
    researcher = worker("researcher", [reply(called("c1", "fetch", {})), reply(said("42"))], fetch)
    world = World([reply(delegated("d1", "researcher")), reply(said("ok"))])
    result = await world.turn(delegate_descriptors=[researcher.descriptor])
    own = [one.tainted for one in world.journal.of(StepStarted) if one.worker is None]
    assert own == [False, True]
    assert result.tainted
    (completed,) = world.journal.of(DelegateCompleted)
    assert (completed.tainted, completed.first_party) == (True, False)


async def test_a_worker_that_read_nothing_untrusted_taints_nobody() -> None:
    researcher = worker("researcher", [reply(said("42"))])
    world = World([reply(delegated("d1", "researcher")), reply(said("ok"))])
    result = await world.turn(delegate_descriptors=[researcher.descriptor])
    assert not result.tainted
    assert not (await _turn_on_the_transcript_of(world)).tainted


async def _turn_on_the_transcript_of(world: World) -> Any:
    again = World([reply(said("more"))], history=world.run.messages())
    return await again.turn()


@pytest.mark.parametrize(("parent", "own"), [(WRITE, ALL_CAPABILITIES), (ALL_CAPABILITIES, WRITE)])
async def test_a_worker_may_never_do_what_its_parent_or_itself_may_not(
    parent: Any, own: Any
) -> None:
    """F111: its ceiling lies within both."""
    post = MemoryTool("post", required=POST)
    replies = [reply(called("c1", "post", {})), reply(said("no"))]
    researcher = worker("researcher", replies, post, execution_ceiling=own)
    agent = BoundAgent(name="boss", model="prepared", execution_ceiling=parent)
    world = World([reply(delegated("d1", "researcher")), reply(said("ok"))], agent=agent)
    await world.turn(delegate_descriptors=[researcher.descriptor])
    assert codes(world) == ["outside_ceiling"]
    assert researcher.tools.ran == []


async def test_a_coordinator_without_tools_delegates_to_a_worker_that_has_some() -> None:
    """F112: what it may call itself and what its workers may call are two lists."""
    look = MemoryTool("look")
    researcher = worker("researcher", [reply(called("c1", "look", {})), reply(said("42"))], look)
    batch = reply(delegated("d1", "researcher"), called("c1", "look", {}))
    world = World([batch, reply(said("ok"))])
    await world.turn(delegate_descriptors=[researcher.descriptor])
    assert researcher.tools.ran == ["look"]
    assert codes(world) == ["unknown_tool"]


async def test_an_unattended_parent_has_unattended_workers() -> None:
    """T130: the escalation is a denial, on the worker's record."""
    post = MemoryTool("post", required=EGRESS, asks=True)
    researcher = worker("researcher", [reply(called("c1", "post", {})), reply(said("no"))], post)
    world = World([reply(delegated("d1", "researcher")), reply(said("ok"))])
    result = await world.turn(delegate_descriptors=[researcher.descriptor], unattended=True)
    assert (result.ended_by, result.pending_approvals) == (EndedBy.ANSWER, ())
    assert result.unattended_denials == ()
    (denial,) = result.delegate_records[0].unattended_denials
    assert denial.tool == "post"


async def test_a_worker_that_fails_is_a_failed_result_and_the_turn_goes_on() -> None:
    researcher = worker("researcher", [[ProviderError(FailureKind.AUTH, "secret")]])
    world = World([reply(delegated("d1", "researcher")), reply(said("ok"))])
    result = await world.turn(delegate_descriptors=[researcher.descriptor])
    (failed,) = world.journal.of(ToolFailed)
    assert (failed.code, "secret" in failed.error) == ("tool_failed", False)
    (record,) = result.delegate_records
    assert (result.text, record.succeeded, record.error) == ("ok", False, "auth")


async def test_a_worker_that_comes_to_no_text_has_failed() -> None:
    look = MemoryTool("look")
    replies = [reply(called("c1", "look", {})), reply(said(" "))]
    researcher = worker("researcher", replies, look, max_steps=1)
    world = World([reply(delegated("d1", "researcher")), reply(said("ok"))])
    result = await world.turn(delegate_descriptors=[researcher.descriptor])
    assert result.delegate_records[0].error == "no_path"


async def test_a_worker_that_may_not_go_on_lets_its_siblings_come_to_their_end() -> None:
    """A drained process hands the turn over; an effect that is under way is not cut off."""
    refused = asyncio.Event()

    async def slow(_: ToolInvocation) -> ToolOutcome:
        await refused.wait()
        return ToolOutcome(text="done")

    class Draining(MemoryJournal):
        @override
        async def record(self, *facts: Any) -> None:
            if any(_is_workers(fact.payload) for fact in facts):
                refused.set()
                raise StepRefused
            await super().record(*facts)

    researcher = worker("researcher", [])
    world = World(
        [reply(delegated("d1", "researcher"), called("c1", "slow", {}))],
        MemoryTool("slow", body=slow),
    )
    world.journal = Draining()
    with pytest.raises(StepRefused):
        await world.turn(delegate_descriptors=[researcher.descriptor])
    assert [one.result for one in world.journal.of(ToolCompleted)] == ["done"]
    assert world.journal.of(DelegateCompleted) == []


async def test_a208_of_two_stops_at_once_that_of_the_lowest_position_counts() -> None:
    """A207 as well: both have ended, nothing is surfaced, and the run goes on from its calls."""
    second_stopped = asyncio.Event()

    class Stopped(StepRefused):
        """A stop that says which call it came from."""

    class Stopping(MemoryJournal):
        @override
        async def record(self, *facts: Any) -> None:
            stopped = [one.payload.worker.call_id for one in facts if _is_workers(one.payload)]
            if not stopped:
                return await super().record(*facts)
            if stopped[0] == "call_1_1_1":
                second_stopped.set()
            await second_stopped.wait()
            raise Stopped(stopped[0])

    workers = [worker("researcher", []), worker("writer", [])]
    world = World([reply(delegated("d1", "researcher"), delegated("d2", "writer", position=1))])
    world.journal = Stopping()
    with pytest.raises(Stopped, match="call_1_1_0"):
        await world.turn(delegate_descriptors=[one.descriptor for one in workers])
    assert (world.journal.of(ToolCompleted), world.journal.of(DelegateCompleted)) == ([], [])
    assert world.run.state() == "executing_tools"


async def test_the_results_of_a_worker_are_redacted_and_cut_like_any_other() -> None:
    researcher = worker("researcher", [reply(said("x" * 70_000))])
    world = World([reply(delegated("d1", "researcher")), reply(said("ok"))])
    await world.turn(delegate_descriptors=[researcher.descriptor])
    (completed,) = world.journal.of(ToolCompleted)
    assert (completed.truncated, completed.artifact_id) == (True, "art_call_1_1_0")
    assert len(completed.result.encode()) <= 64 * 1024


async def test_a_worker_s_steps_are_bounded_by_its_own_cap() -> None:
    look = MemoryTool("look")
    endless = [reply(called("c1", "look", {}))] * 3 + [reply(said("closing"))]
    researcher = worker("researcher", endless, look, max_steps=3)
    world = World([reply(delegated("d1", "researcher")), reply(said("ok"))])
    result = await world.turn(delegate_descriptors=[researcher.descriptor], max_steps=2)
    assert len(researcher.provider.requests) == 4
    assert (result.text, result.steps) == ("ok", 2)
    # A cap cuts short, and what was said by then is an answer all the same.
    assert [(record.succeeded, record.error) for record in result.delegate_records] == [
        (True, None)
    ]


@pytest.mark.parametrize("changed", [{"files": SharedInMemory()}, {"share_in": ("notes",)}])
async def test_nothing_is_copied_where_there_is_nothing_or_no_way(changed: dict[str, Any]) -> None:
    """A worker that is shown nothing of its parent's, and a deployment without workspaces."""
    clerk = worker("clerk", [reply(said("42"))], **changed)
    world = World([reply(delegated("d1", "clerk")), reply(said("ok"))])
    result = await world.turn(delegate_descriptors=[clerk.descriptor])
    assert [(record.succeeded, record.shared_paths) for record in result.delegate_records] == [
        (True, ())
    ]
    if (files := changed.get("files")) is not None:
        assert files.asked == []
