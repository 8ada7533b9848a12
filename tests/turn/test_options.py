"""The options of a turn and its step cap (turn.md 2, T1, T2, T7 to T10)."""

from __future__ import annotations

from typing import Any

import pytest

from app.engine.messages import AssistantMessage, AssistantText, Message, UserMessage
from app.turn.options import RunTurnOptions
from app.turn.ports import CacheHint, FailureKind, ProviderError
from app.turn.result import EndedBy, PendingApproval
from tests.support.turn.journal import SleeperClock
from tests.support.turn.provider import EndlessProvider, called, reply, said
from tests.support.turn.tools import MemoryTool
from tests.support.turn.world import World, approve


def endless(**agent: Any) -> World:
    world = World([], MemoryTool("read"), **agent)
    world.provider = EndlessProvider(lambda step: reply(called(f"c{step}", "read", {"n": step})))
    return world


def requests_of(world: World) -> list[Any]:
    return getattr(world.provider, "requests", [])


async def test_t1_without_any_setting_eight_steps_and_one_closing_call_are_made() -> None:
    world = endless()
    result = await world.turn()
    requests = requests_of(world)
    assert [request.calls_allowed for request in requests] == [True] * 8 + [False]
    assert (result.ended_by, result.steps, result.executed_calls) == (EndedBy.STEP_CAP, 9, 8)


@pytest.mark.parametrize(
    ("options", "loop_calls"),
    [
        pytest.param({"max_steps": 5, "default_max_steps": 3}, 5, id="the-option-first"),
        pytest.param({"default_max_steps": 3}, 3, id="then-the-settings"),
        pytest.param({"max_steps": 12}, 12, id="more-than-eight"),
    ],
)
async def test_t2_the_step_cap_is_the_option_then_the_settings(
    options: dict[str, int], loop_calls: int
) -> None:
    world = endless()
    await world.turn(**options)
    assert sum(request.calls_allowed for request in requests_of(world)) == loop_calls


@pytest.mark.parametrize("options", [{"max_steps": 0}, {"max_steps": -1}, {"default_max_steps": 0}])
async def test_t2_a_cap_below_one_is_refused(options: dict[str, int]) -> None:
    world = endless()
    with pytest.raises(ValueError, match="max_steps: expected at least 1"):
        await world.turn(**options)


async def test_t7_default_options_add_nothing_to_a_request() -> None:
    world = World([reply(said("hi"))], MemoryTool("read"))
    await world.turn(clock=None)
    (request,) = world.prepared.requests
    assert request.cache_hint is CacheHint.NONE
    assert (request.web_search, request.now_unix_ms) == (False, None)
    assert [spec.name for spec in request.tools] == ["read"]


async def test_a_request_counts_the_replies_of_this_run_only() -> None:
    earlier: list[Message] = [
        UserMessage.of_text("before"),
        AssistantMessage(content=(AssistantText(text="ok"),)),
    ]
    world = World(
        [reply(called("c1", "read", {})), reply(said("x"))], MemoryTool("read"), history=earlier
    )
    await world.turn()
    first, second = world.prepared.requests
    assert (first.replies, second.replies) == (0, 1)
    assert (first.user_text, list(first.messages[:2])) == ("do it", earlier)


async def test_each_turn_of_a_run_has_its_own_steps() -> None:
    replies = [reply(called(f"c{n}", "post", {"n": n})) for n in range(3)]
    world = World([*replies, reply(said("ok"))], MemoryTool("post", asks=True))
    result = await world.turn(max_steps=1)
    while result.pending_approvals:
        decision = approve(result.pending_approvals[0], turn_id=world.turn_id)
        result = await world.turn(max_steps=1, approval_decisions=[decision])
    assert (result.text, world.turns) == ("ok", 4)


async def test_t8_every_step_marks_the_same_prefix() -> None:
    world = World([reply(called("c1", "read", {})), reply(said("x"))], MemoryTool("read"))
    await world.turn(cache_hint=CacheHint.STABLE_PREFIX)
    first, second = world.prepared.requests
    assert first.cache_hint is second.cache_hint is CacheHint.STABLE_PREFIX
    assert (first.instructions, first.tools) == (second.instructions, second.tools)


async def test_t9_equal_script_and_clock_give_equal_turns() -> None:
    def one() -> World:
        return World([reply(called("c1", "read", {})), reply(said("x"))], MemoryTool("read"))

    worlds = one(), one()
    results = [await world.turn() for world in worlds]
    assert results[0] == results[1]
    assert worlds[0].journal.commits == worlds[1].journal.commits


async def test_t9_the_model_is_shown_the_recorded_start_of_the_turn() -> None:
    world = World([reply(said("x"))])
    await world.turn(turn_start_unix_ms=1_700_000_000_000)
    assert world.prepared.requests[0].now_unix_ms == 1_700_000_000_000


async def test_t9_the_start_is_read_from_the_clock_once() -> None:
    world = World([reply(said("x"))])
    await world.turn()
    assert world.prepared.requests[0].now_unix_ms == 1_000_000


async def test_t10_one_options_object_serves_two_turns_alike() -> None:
    async def play(options: RunTurnOptions) -> tuple[Any, list[str]]:
        world = World(
            [reply(called("c1", "post", {"x": 1})), reply(said("sent"))],
            MemoryTool("post", asks=True),
        )
        await world.turn()
        result = await world.turn(approval_decisions=options.approval_decisions)
        return result, world.tools.ran

    probe = World([reply(called("c1", "post", {"x": 1}))], MemoryTool("post", asks=True))
    pending = (await probe.turn()).pending_approvals[0]
    options = RunTurnOptions(approval_decisions=[approve(pending)])
    first, second = await play(options), await play(options)
    assert first == second
    assert first[1] == ["post"]


async def test_a_turn_without_a_clock_runs_on_the_loops_own() -> None:
    world = World([reply(called("c1", "read", {})), reply(said("x"))], MemoryTool("read"))
    assert (await world.turn(clock=None)).text == "x"


def test_the_repr_of_options_shows_no_argument_text() -> None:
    options = RunTurnOptions(
        approval_decisions=[
            approve(
                _pending('{"password":"hunter2"}'),
            )
        ]
    )
    assert "hunter2" not in repr(options)
    assert "approval_decisions=1" in repr(options)
    assert "unattended=False" in repr(options)


def test_the_repr_of_options_names_the_kind_of_a_port() -> None:
    assert "clock=SleeperClock" in repr(RunTurnOptions(clock=SleeperClock()))


async def test_a_turn_without_a_clock_waits_on_the_loops_timer() -> None:
    refusal = ProviderError(FailureKind.TIMEOUT, "slow", retry_after=0.0)
    world = World([[refusal], reply(said("x"))])
    assert (await world.turn(clock=None)).text == "x"


def _pending(args_json: str) -> PendingApproval:
    return PendingApproval(
        request_id="c1",
        call_id="call_1_1_0",
        tool_name="post",
        title="post",
        args_json=args_json,
        reason="",
        required=frozenset(),
        missing=frozenset(),
    )
