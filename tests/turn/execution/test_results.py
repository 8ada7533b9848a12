"""Running calls and showing their results (turn.md 3.5, T17 to T20)."""

from __future__ import annotations

import asyncio

import pytest
import structlog
from typing_extensions import override

from app.engine.messages import ToolResult, ToolResultText, UserMessage
from app.errors import LeaseLost
from app.log.calls import ToolCompleted, ToolFailed
from app.policy.taint import Trust
from app.turn.ports import Fact, ToolInvocation, ToolOutcome
from app.turn.stream import ToolStarted
from tests.support.turn.journal import KeptStream, MemoryJournal
from tests.support.turn.provider import called, reply, said
from tests.support.turn.tools import MemoryTool
from tests.support.turn.world import World


def answers(text: str, code: str | None = None) -> MemoryTool:
    async def body(call: ToolInvocation) -> ToolOutcome:
        return ToolOutcome(text=text, code=code)

    return MemoryTool("read", body=body)


def results_of(message: object) -> list[str]:
    assert isinstance(message, UserMessage)
    return [
        content.text
        for part in message.content
        if isinstance(part, ToolResult)
        for content in part.content
        if isinstance(content, ToolResultText)
    ]


async def test_t17_a_tool_that_raises_gives_an_error_result_and_the_turn_goes_on() -> None:
    async def body(call: ToolInvocation) -> ToolOutcome:
        raise RuntimeError("secret key 123")

    world = World(
        [reply(called("c1", "read", {})), reply(said("ok"))], MemoryTool("read", body=body)
    )
    with structlog.testing.capture_logs() as logs:
        result = await world.turn()
    assert result.text == "ok"
    (failed,) = world.journal.of(ToolFailed)
    assert failed.code == "tool_failed"
    assert failed.error == '{"error":"The tool failed.","code":"tool_failed"}'
    assert logs[0]["error"] == "RuntimeError"
    assert "secret" not in str(logs)


async def test_a_failure_the_tool_tells_of_keeps_its_code() -> None:
    world = World(
        [reply(called("c1", "read", {})), reply(said("ok"))],
        answers('{"error":"404"}', "not_found"),
    )
    await world.turn()
    (failed,) = world.journal.of(ToolFailed)
    assert (failed.code, failed.error) == ("not_found", '{"error":"404"}')


async def test_t18_results_stand_in_source_order_whatever_ends_first() -> None:
    """T18, A205: in the log, in the history, in what the model is sent."""
    ended: dict[str, asyncio.Event] = {name: asyncio.Event() for name in ("a", "b", "c")}
    waits_for = {"a": "b", "b": "c", "c": None}

    async def body(call: ToolInvocation) -> ToolOutcome:
        before = waits_for[call.name]
        if before is not None:
            await ended[before].wait()
        ended[call.name].set()
        return ToolOutcome(text=f"result of {call.name}")

    tools = [MemoryTool(name, body=body) for name in ("a", "b", "c")]
    emitted = [called(f"c{i}", name, {}, position=i) for i, name in enumerate(("a", "b", "c"))]
    world = World([reply(*emitted), reply(said("ok"))], *tools)
    stream = KeptStream()
    result = await world.turn(stream_tx=stream)
    assert results_of(result.messages[1]) == ["result of a", "result of b", "result of c"]
    assert [one.tool for one in world.journal.of(ToolCompleted)] == ["a", "b", "c"]
    assert [event.name for event in stream.events if isinstance(event, ToolStarted)] == [
        "a",
        "b",
        "c",
    ]
    sent = world.prepared.requests[1].messages[-1]
    assert results_of(sent) == ["result of a", "result of b", "result of c"]


async def test_a_result_is_durable_while_its_siblings_are_still_running() -> None:
    seen: list[bool] = []

    async def slow(call: ToolInvocation) -> ToolOutcome:
        for _ in range(20):
            await asyncio.sleep(0)
        seen.append("tool.completed" in world.journal.types)
        return ToolOutcome(text="x")

    world = World(
        [reply(called("c1", "a", {}), called("c2", "b", {}, position=1)), reply(said("ok"))],
        MemoryTool("a"),
        MemoryTool("b", body=slow),
    )
    await world.turn()
    assert seen == [True]


async def test_all_starts_of_a_batch_are_one_commit_and_precede_every_execution() -> None:
    seen: list[list[str]] = []

    async def body(call: ToolInvocation) -> ToolOutcome:
        seen.append(world.journal.types)
        return ToolOutcome(text="x")

    world = World(
        [reply(called("c1", "a", {}), called("c2", "b", {}, position=1)), reply(said("ok"))],
        MemoryTool("a", body=body),
        MemoryTool("b", body=body),
    )
    await world.turn()
    assert [types.count("tool.started") for types in seen] == [2, 2]


@pytest.mark.parametrize("keeps", [True, False], ids=["as-an-artifact", "not-at-all"])
async def test_t19_a_long_result_is_cut_between_characters_and_kept_whole(keeps: bool) -> None:
    whole = "x" * (64 * 1024 - 1) + "é"
    world = World([reply(called("c1", "read", {})), reply(said("ok"))], answers(whole))
    world.journal.keeps_artifacts = keeps
    await world.turn()
    (completed,) = world.journal.of(ToolCompleted)
    shown = completed.result
    assert completed.truncated
    assert len(shown.encode()) <= 64 * 1024
    assert world.journal.kept == {"call_1_1_0": whole}
    if keeps:
        assert shown.endswith("\n[cut: 65537 bytes in all, kept whole as artifact art_call_1_1_0]")
        assert completed.artifact_id == "art_call_1_1_0"
    else:
        assert shown.endswith("\n[cut: 65537 bytes in all]")
        assert completed.artifact_id is None


async def test_c146_what_a_tainted_run_keeps_is_untrusted_whatever_its_tool_read() -> None:
    """Else whoever reads the file later would take a stranger's words for a sound tool's."""

    async def page(call: ToolInvocation) -> ToolOutcome:
        return ToolOutcome(text="x", trust=Trust.QUARANTINED_CONTENT)

    async def long(call: ToolInvocation) -> ToolOutcome:
        return ToolOutcome(text="x" * 70_000)

    calls = [called("c1", "long", {}), called("c2", "page", {}), called("c3", "long", {})]
    world = World(
        [*map(reply, calls), reply(said("ok"))],
        MemoryTool("page", body=page),
        MemoryTool("long", body=long),
    )
    await world.turn()
    assert world.journal.kept_as == [Trust.UNSPECIFIED, Trust.QUARANTINED_CONTENT]


async def test_t19_the_cut_never_splits_a_character() -> None:
    world = World([reply(called("c1", "read", {})), reply(said("ok"))], answers("é" * 40_000))
    await world.turn()
    shown = world.journal.of(ToolCompleted)[0].result
    assert set(shown.partition("\n")[0]) == {"é"}
    assert len(shown.encode()) in {64 * 1024, 64 * 1024 - 1}


async def test_a_result_of_exactly_the_cap_is_shown_whole() -> None:
    world = World([reply(called("c1", "read", {})), reply(said("ok"))], answers("x" * 65536))
    await world.turn()
    assert not world.journal.of(ToolCompleted)[0].truncated
    assert world.journal.kept == {}


async def test_a_lone_surrogate_in_a_result_is_escaped() -> None:
    world = World([reply(called("c1", "read", {})), reply(said("ok"))], answers("a\ud800b"))
    await world.turn()
    assert world.journal.of(ToolCompleted)[0].result == "a\\ud800b"


async def test_t20_a_tool_that_is_not_viable_is_not_offered() -> None:
    world = World([reply(said("ok"))], MemoryTool("read"), MemoryTool("shell", advertised=False))
    await world.turn()
    assert [spec.name for spec in world.prepared.requests[0].tools] == ["read"]


async def test_a_spec_under_a_reserved_name_is_not_offered() -> None:
    world = World([reply(said("ok"))], MemoryTool("__handoff_to"), MemoryTool("ask_question"))
    await world.turn()
    assert world.prepared.requests[0].tools == ()


async def test_a_result_carries_the_tag_of_what_its_tool_read() -> None:
    async def body(call: ToolInvocation) -> ToolOutcome:
        return ToolOutcome(text="x", trust=Trust.QUARANTINED_CONTENT)

    world = World(
        [reply(called("c1", "read", {})), reply(said("ok"))], MemoryTool("read", body=body)
    )
    result = await world.turn()
    tags = [fact.trust for fact in world.journal.facts if isinstance(fact.payload, ToolCompleted)]
    assert (tags, result.tainted) == ([Trust.QUARANTINED_CONTENT], True)


async def test_a_duration_is_measured_by_the_turns_clock() -> None:
    async def body(call: ToolInvocation) -> ToolOutcome:
        world.clock.ms += 12
        return ToolOutcome(text="x")

    world = World(
        [reply(called("c1", "read", {})), reply(said("ok"))], MemoryTool("read", body=body)
    )
    await world.turn()
    assert world.journal.of(ToolCompleted)[0].duration_ms == 12


async def test_cancelling_the_turn_cancels_and_awaits_the_tools() -> None:
    ended: list[str] = []
    both_run = asyncio.Event()

    async def body(call: ToolInvocation) -> ToolOutcome:
        if call.name == "b":
            both_run.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(call.name)
        raise AssertionError("unreachable")

    world = World(
        [reply(called("c1", "a", {}), called("c2", "b", {}, position=1))],
        MemoryTool("a", body=body),
        MemoryTool("b", body=body),
    )
    async with asyncio.TaskGroup() as group:
        turn = group.create_task(world.turn())
        await both_run.wait()
        turn.cancel()
    assert turn.cancelled()
    assert sorted(ended) == ["a", "b"]
    assert "tool.completed" not in world.journal.types


async def test_a_tool_that_meets_the_loss_of_the_lease_ends_the_turn() -> None:
    async def body(call: ToolInvocation) -> ToolOutcome:
        raise LeaseLost("taken over")

    world = World([reply(called("c1", "read", {}))], MemoryTool("read", body=body))
    with pytest.raises(LeaseLost):
        await world.turn()


async def test_a_journal_that_fails_inside_a_batch_raises_its_own_error() -> None:
    class Fenced(MemoryJournal):
        @override
        async def record(self, *facts: Fact) -> None:
            if facts[0].payload.TYPE == "tool.completed":
                raise LeaseLost("taken over")
            await super().record(*facts)

    world = World(
        [reply(called("c1", "a", {}), called("c2", "b", {}, position=1))],
        MemoryTool("a"),
        MemoryTool("b"),
    )
    world.journal = Fenced()
    with pytest.raises(LeaseLost):
        await world.turn()
