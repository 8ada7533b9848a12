"""What holds whatever workers emit, whoever decides, and however often everything is forgotten.

Between two turns nothing is kept but the journal: runs of the agent and of its workers are rebuilt
from it (I14, I15, I22, T129).
"""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hypothesis import given, settings
from hypothesis import strategies as st

from app.log.calls import (
    DelegateCompleted,
    DelegateStarted,
    MessageAssistant,
    ToolCompleted,
    ToolFailed,
    ToolSettled,
    ToolStarted,
)
from app.turn.result import EndedBy
from tests.support.turn.provider import EndlessProvider, called, reply, said
from tests.support.turn.tools import EGRESS, POST, READ, WRITE, MemoryTool
from tests.support.turn.workers import Worker, delegated, worker
from tests.support.turn.world import World, approve, deny

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from app.engine.streaming.items import StreamItem
    from app.turn.options import ApprovalDecision
    from app.turn.result import PendingApproval

    Emitted = Sequence[Sequence[tuple[str, str]]]

# (tool, argument text): ids and arguments repeat over the workers, some are malformed.
CALLS = st.tuples(
    st.sampled_from(["read", "write", "inbox", "fetch", "post", "nope"]),
    st.sampled_from(['{"n":1}', '{"n":1.0}', "{", "{}"]),
)
REPLIES = st.lists(st.lists(CALLS, min_size=1, max_size=3), max_size=5)
# How many workers the agent sends off in each of its replies, and whether it posts beside them.
ORDERS = st.lists(st.tuples(st.integers(1, 3), st.booleans()), min_size=1, max_size=2)
ANSWERS = st.lists(st.sampled_from(["approve", "deny", "later"]), max_size=12)


def endless(emitted: Sequence[list[StreamItem | Exception]]) -> EndlessProvider:
    return EndlessProvider(
        lambda number: emitted[number] if number < len(emitted) else reply(said("ok"))
    )


def clerk_of(replies: Emitted) -> Worker:
    """A worker whose delegations share these replies, in the order in which they ask."""
    clerk = worker(
        "clerk",
        [],
        MemoryTool("read", READ),
        MemoryTool("write", WRITE),
        MemoryTool("inbox", READ, ingests=True),
        MemoryTool("fetch", EGRESS),
        MemoryTool("post", POST, asks=True),
    )
    emitted = [
        reply(*[called("c1", tool, text, position=i) for i, (tool, text) in enumerate(calls)])
        for calls in replies
    ]
    changed: Any = {"provider": endless(emitted), "max_steps": 4}
    return worker_with(clerk, **changed)


def worker_with(known: Worker, **changed: Any) -> Worker:
    return Worker(replace(known.descriptor, **changed), known.provider, known.tools)


def world_of(orders: Sequence[tuple[int, bool]]) -> World:
    world = World([], MemoryTool("post", POST, asks=True))
    world.provider = endless(
        [
            reply(
                *[delegated("d1", "clerk", position=at) for at in range(count)],
                *[called("c1", "post", {"n": 1}, position=count)] * posts,
            )
            for count, posts in orders
        ]
    )
    return world


async def drive(world: World, clerk: Worker, answers: Sequence[str]) -> set[str]:
    """Drive to the end, forgetting everything between two turns; the calls that were approved."""
    said_so, approved = iter(answers), set[str]()
    decisions: list[ApprovalDecision] = []
    while True:
        result = await world.turn(
            delegate_descriptors=[clerk.descriptor], approval_decisions=decisions
        )
        if result.ended_by is not EndedBy.PAUSE:
            return approved
        messages, pending = world.run.messages(), world.run.pending_tool_calls()
        world.crash(len(world.journal.facts))
        assert (world.run.messages(), world.run.pending_tool_calls()) == (messages, pending)
        decisions = list(decided(result.pending_approvals, said_so, world.turn_id))
        approved |= {one.call_id or "" for one in decisions if one.approved}


def decided(
    cards: Sequence[PendingApproval], answers: Iterator[str], turn_id: str
) -> Iterator[ApprovalDecision]:
    for card in reversed(cards):
        match next(answers, "approve"):
            case "approve":
                yield approve(card, turn_id=turn_id)
            case "deny":
                yield deny(card, turn_id=turn_id)
            case _:
                pass


@settings(max_examples=40, deadline=None)
@given(orders=ORDERS, replies=REPLIES, answers=ANSWERS)
def test_every_call_of_a_worker_ends_once_and_nothing_runs_unordered(
    orders: list[tuple[int, bool]], replies: list[list[tuple[str, str]]], answers: list[str]
) -> None:
    world, clerk = world_of(orders), clerk_of(replies)
    approved = asyncio.run(drive(world, clerk, answers))

    emitted = [
        part.call_id
        for message in world.journal.of(MessageAssistant)
        for part in message.content
        if part.type == "tool_call"
    ]
    ended = Counter(one.call_id for one in world.journal.of(ToolCompleted))
    ended += Counter(one.call_id for one in world.journal.of(ToolFailed))
    ended += Counter(one.call_id for one in world.journal.of(ToolSettled))
    assert ended == Counter(emitted)
    assert len(set(emitted)) == len(emitted)
    begun = Counter(one.call_id for one in world.journal.of(DelegateStarted))
    assert begun == Counter(one.call_id for one in world.journal.of(DelegateCompleted))

    ran = [call for tools in (world.tools, clerk.tools) for call in tools.calls]
    started = Counter(one.call_id for one in world.journal.of(ToolStarted))
    assert Counter(call.call_id for call in ran) == started
    assert set(started.values()) <= {1}
    assert {call.call_id for call in ran if call.name == "post"} <= approved
