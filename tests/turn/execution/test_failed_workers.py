"""What a worker that fails leaves behind: each of its calls has one end (turn.md 7.1, I6)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from app.log.calls import ToolSettled, ToolStarted
from app.turn.result import EndedBy
from tests.support.turn.provider import called, reply, said
from tests.support.turn.tools import EGRESS, WRITE, MemoryTool
from tests.support.turn.workers import delegated, worker
from tests.support.turn.world import World, approve

if TYPE_CHECKING:
    from app.turn.options import ApprovalDecision
    from app.turn.result import PendingApproval

OTHER_BYTES = "0" * 64


def misdirected(card: PendingApproval) -> ApprovalDecision:
    """An approval of other bytes than would run, which is a failure of the turn (turn.md 6.4)."""
    decision = approve(card, turn_id="turn_1/call_1_1_0/1")
    return replace(decision, effective_sha256=OTHER_BYTES)


CANCELLED = '{"error":"cancelled before start","code":"cancelled"}'
INTERRUPTED = '{"error":"interrupted, effect unknown","code":"interrupted"}'


def ends(world: World) -> list[tuple[str, str, str, str]]:
    return [
        (one.call_id, one.tool, one.outcome, one.result) for one in world.journal.of(ToolSettled)
    ]


async def test_calls_that_had_not_begun_end_cancelled_under_their_own_ids() -> None:
    batch = reply(
        called("c1", "read", {}),
        called("c2", "post", {}, position=1),
        called("c3", "write", {}, position=2),
    )
    clerk = worker(
        "clerk",
        [batch],
        MemoryTool("read"),
        MemoryTool("post", EGRESS, asks=True),
        MemoryTool("write", WRITE),
    )
    options = {"delegate_descriptors": [clerk.descriptor]}
    world = World([reply(delegated("d1", "clerk")), reply(said("ok"))])
    paused = await world.turn(**options)
    (card,) = paused.pending_approvals
    result = await world.turn(approval_decisions=[misdirected(card)], **options)
    assert (result.ended_by, result.text, clerk.tools.ran) == (EndedBy.ANSWER, "ok", ["read"])
    assert ends(world) == [
        ("call_1_1_0/call_1_1_1", "post", "cancelled", CANCELLED),
        ("call_1_1_0/call_1_1_2", "write", "cancelled", CANCELLED),
    ]
    (record,) = result.delegate_records
    assert (record.succeeded, record.error) == (False, "internal")


async def test_a_call_that_had_begun_ends_interrupted() -> None:
    replies = [reply(called("c1", "post", {})), reply(said("posted"))]
    clerk = worker("clerk", replies, MemoryTool("post", EGRESS))
    options = {"delegate_descriptors": [clerk.descriptor]}
    world = World([reply(delegated("d1", "clerk")), reply(said("ok")), reply(said("ok"))])
    await world.turn(**options)
    begun = [isinstance(fact.payload, ToolStarted) for fact in world.journal.facts]
    world.crash(1 + begun.index(True))
    paused = await world.turn(**options)
    (card,) = paused.pending_approvals
    assert card.outcome_unknown
    result = await world.turn(approval_decisions=[misdirected(card)], **options)
    assert (result.ended_by, clerk.tools.ran) == (EndedBy.ANSWER, ["post"])
    assert ends(world) == [("call_1_1_0/call_1_1_0", "post", "interrupted", INTERRUPTED)]
