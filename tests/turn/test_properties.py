"""What holds for every run, whatever the model emits and whoever decides (turn.md 11)."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING, Any

from hypothesis import given, settings
from hypothesis import strategies as st

from app.engine.messages import AssistantMessage, ToolCall, ToolResult, UserMessage
from app.log.calls import MessageAssistant, ToolCompleted, ToolSettled, ToolStarted
from app.turn.ports import ToolInvocation, ToolOutcome
from app.turn.result import EndedBy
from tests.support.turn.provider import called, reply, said
from tests.support.turn.tools import EGRESS, POST, READ, WRITE, MemoryTool
from tests.support.turn.world import World, approve, deny

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from app.engine.messages import Message
    from app.turn.options import ApprovalDecision
    from app.turn.result import PendingApproval

# (tool, argument text): ids repeat, arguments repeat, some are malformed, one tool is unknown.
CALLS = st.tuples(
    st.sampled_from(["read", "write", "inbox", "fetch", "post", "nope"]),
    st.sampled_from(['{"n":1}', '{"n":1.0}', '{"n":2}', "{", "{}"]),
)
REPLIES = st.lists(st.lists(CALLS, min_size=1, max_size=4), max_size=3)
# What a person says of each card in turn: approve, deny, or nothing yet.
ANSWERS = st.lists(st.sampled_from(["approve", "deny", "later"]), max_size=12)

EFFECTS = {"write", "fetch", "post"}


def world_of(replies: Sequence[Sequence[tuple[str, str]]]) -> World:
    async def body(call: ToolInvocation) -> ToolOutcome:
        started = [one.call_id for one in world.journal.of(ToolStarted)]
        assert call.call_id in started, "a call ran before its start was recorded"
        return ToolOutcome(text=f"result of {call.call_id}")

    emitted = [
        reply(*[called("c1", tool, text, position=i) for i, (tool, text) in enumerate(calls)])
        for calls in replies
    ]
    world = World(
        [*emitted, reply(said("ok"))],
        MemoryTool("read", READ, body=body),
        MemoryTool("write", WRITE, body=body),
        MemoryTool("inbox", READ, ingests=True, body=body),
        MemoryTool("fetch", EGRESS, body=body),
        MemoryTool("post", POST, asks=True, body=body),
    )
    return world


async def drive(world: World, answers: Sequence[str], **options: Any) -> set[str]:
    """Drive to the end, every turn with these options; the calls that somebody approved."""
    said_so, approved = iter(answers), set[str]()
    result = await world.turn(**options)
    while result.ended_by is EndedBy.PAUSE:
        decisions = list(decided(result.pending_approvals, said_so, world.turn_id))
        approved |= {one.call_id or "" for one in decisions if one.approved}
        ran_before = len(world.tools.calls)
        result = await world.turn(approval_decisions=decisions, **options)
        if result.ended_by is EndedBy.PAUSE:
            check_waiting(world, ran_before, approved)
    return approved


def decided(
    pending: Sequence[PendingApproval], answers: Iterator[str], turn_id: str
) -> Iterator[ApprovalDecision]:
    for card in pending:
        match next(answers, "approve"):
            case "approve":
                yield approve(card, turn_id=turn_id)
            case "deny":
                yield deny(card, turn_id=turn_id)
            case _:
                pass


def check_waiting(world: World, ran_before: int, approved: set[str]) -> None:
    """I14: in the batch that pauses, nothing with an effect ran that no person has ordered."""
    latest = {
        part.call_id
        for part in world.journal.of(MessageAssistant)[-1].content
        if part.type == "tool_call"
    }
    for call in world.tools.calls[ran_before:]:
        if call.call_id in latest and call.name in EFFECTS:
            assert call.call_id in approved


def check_transcript(messages: Sequence[Message]) -> None:
    """I6, I22: every call has one result, in source order, in the message that follows."""
    for index, message in enumerate(messages):
        if not isinstance(message, AssistantMessage):
            continue
        calls = [part for part in message.content if isinstance(part, ToolCall)]
        if calls:
            answers = messages[index + 1]
            assert isinstance(answers, UserMessage)
            named = [part.name for part in answers.content if isinstance(part, ToolResult)]
            assert named == [call.name for call in calls]


@settings(max_examples=60, deadline=None)
@given(replies=REPLIES, answers=ANSWERS)
def test_every_call_ends_once_in_order_and_nothing_runs_unordered(
    replies: list[list[tuple[str, str]]], answers: list[str]
) -> None:
    world = world_of(replies)
    approved = asyncio.run(drive(world, answers))

    emitted = [
        part.call_id
        for message in world.journal.of(MessageAssistant)
        for part in message.content
        if part.type == "tool_call"
    ]
    ended = Counter(one.call_id for one in world.journal.of(ToolCompleted))
    ended += Counter(one.call_id for one in world.journal.of(ToolSettled))
    assert ended == Counter(emitted)
    assert len(set(emitted)) == len(emitted)

    ran = [call.call_id for call in world.tools.calls]
    assert ran == [one.call_id for one in world.journal.of(ToolStarted)]
    assert len(set(ran)) == len(ran)
    assert {call.call_id for call in world.tools.calls if call.name == "post"} <= approved
    for request in world.prepared.requests:
        check_transcript(request.messages)


@settings(max_examples=30, deadline=None)
@given(replies=REPLIES, answers=ANSWERS)
def test_i17_a_run_driven_twice_leaves_the_same_log(
    replies: list[list[tuple[str, str]]], answers: list[str]
) -> None:
    one, two = world_of(replies), world_of(replies)
    asyncio.run(drive(one, answers))
    asyncio.run(drive(two, answers))
    assert one.journal.commits == two.journal.commits
    assert one.run.dump() == two.run.dump()


@settings(max_examples=30, deadline=None)
@given(replies=REPLIES, answers=ANSWERS)
def test_the_log_alone_gives_the_run_back(
    replies: list[list[tuple[str, str]]], answers: list[str]
) -> None:
    world = world_of(replies)
    asyncio.run(drive(world, answers))
    live = world.run
    world.crash(len(world.journal.facts))
    assert world.run.messages() == live.messages()
    assert (world.run.usage(), world.run.turn(), world.run.state()) == (
        live.usage(),
        live.turn(),
        live.state(),
    )
