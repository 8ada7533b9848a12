"""The step that a pause left open ends in the turn that resumes it (service.md 6)."""

from __future__ import annotations

from app.log.runs import StepCompleted
from tests.support.turn.provider import called, reply, said
from tests.support.turn.tools import POST, MemoryTool
from tests.support.turn.world import World, approve


async def test_the_step_of_a_pause_completes_with_every_call_of_its_batch() -> None:
    batch = reply(called("c1", "post", {}), called("c2", "read", {}, position=1))
    world = World(
        [reply(called("c0", "read", {})), batch, reply(said("ok"))],
        MemoryTool("post", POST, asks=True),
        MemoryTool("read"),
    )
    paused = await world.turn()
    assert [one.calls for one in world.journal.of(StepCompleted)] == [1]
    await world.turn(approval_decisions=[approve(paused.pending_approvals[0])])
    assert [one.calls for one in world.journal.of(StepCompleted)] == [1, 2, 0]
