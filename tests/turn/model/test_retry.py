"""Dialling, retries and broken streams (turn.md 10, T11 to T16)."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, nan

import pytest

from app.engine.messages import AssistantMessage, AssistantText
from app.log.calls import MessageAssistant
from app.log.runs import StepDiscarded, StepStarted
from app.turn.model.retry import backoff_s, retry_wait_s
from app.turn.ports import FailureKind, ProviderError
from app.turn.result import EndedBy, MidStreamFailure, TurnFailure
from app.turn.stream import TextDelta
from tests.support.turn.journal import KeptStream
from tests.support.turn.provider import called, cut, final, reply, said, thought
from tests.support.turn.tools import MemoryTool
from tests.support.turn.world import World


def refused(kind: FailureKind, retry_after: float | None = None) -> list[Exception]:
    return [ProviderError(kind, "refused", retry_after=retry_after)]


async def test_t11_a_dial_that_fails_once_shows_its_text_once_and_waits_by_the_clock() -> None:
    world = World([refused(FailureKind.RATE_LIMIT), reply(said("hi"))])
    stream = KeptStream()
    result = await world.turn(stream_tx=stream)
    assert (result.text, result.steps) == ("hi", 1)
    assert stream.events == [TextDelta("hi")]
    assert world.clock.slept == [0.375]
    assert [one.attempt for one in world.journal.of(StepStarted)] == [1, 2]
    assert [request.dial for request in world.prepared.requests] == [0, 1]


async def test_t12_the_servers_wish_is_waited_for() -> None:
    world = World([refused(FailureKind.RATE_LIMIT, 7.0), reply(said("hi"))])
    await world.turn()
    assert world.clock.slept == [7.0]


async def test_t12_a_wish_of_ten_minutes_ends_the_retries() -> None:
    world = World([refused(FailureKind.RATE_LIMIT, 600.0)])
    result = await world.turn()
    assert result.failure == TurnFailure(FailureKind.RATE_LIMIT, "refused")
    assert world.clock.slept == []


@pytest.mark.parametrize("kind", [FailureKind.AUTH, FailureKind.BAD_REQUEST, FailureKind.OTHER])
async def test_t13_other_kinds_are_not_retried(kind: FailureKind) -> None:
    world = World([refused(kind)])
    result = await world.turn()
    assert (result.ended_by, result.failure) == (EndedBy.FAILURE, TurnFailure(kind, "refused"))
    assert len(world.prepared.requests) == 1


async def test_t14_four_dials_then_the_turn_fails_with_what_it_has() -> None:
    world = World(
        [reply(called("c1", "read", {}))] + [refused(FailureKind.UNAVAILABLE)] * 4,
        MemoryTool("read"),
    )
    result = await world.turn()
    assert len(world.prepared.requests) == 5
    assert result.failure == TurnFailure(FailureKind.UNAVAILABLE, "refused")
    assert result.mid_stream_failure is None
    assert len(result.messages) == 2


async def test_t15_a_stream_that_breaks_is_not_dialled_again_and_its_text_is_kept() -> None:
    broken = cut(
        thought("hm"),
        said("par"),
        said("tial"),
        called("c1", "read", {}),
        ProviderError(FailureKind.UNAVAILABLE, "gone"),
    )
    world = World([broken], MemoryTool("read"))
    result = await world.turn()
    assert len(world.prepared.requests) == 1
    assert result.mid_stream_failure == MidStreamFailure(FailureKind.UNAVAILABLE, "gone", True)
    assert result.failure == TurnFailure(FailureKind.UNAVAILABLE, "gone")
    assert (result.text, world.tools.ran) == ("partial", [])
    (message,) = world.journal.of(MessageAssistant)
    assert message.stop == "failed"
    assert [(part.type, part.text) for part in message.content] == [
        ("reasoning", "hm"),
        ("text", "partial"),
    ]
    marked = AssistantText(text="partial", additional_params={"incomplete": True})
    assert result.messages == (AssistantMessage(content=(marked,)),)
    assert world.journal.facts[-1].private is None


async def test_a_stream_that_ends_without_its_terminal_record_is_broken() -> None:
    world = World([[said("half")]])
    result = await world.turn()
    assert result.mid_stream_failure == MidStreamFailure(
        FailureKind.OTHER, "the stream ended without a terminal record", True
    )


async def test_a_stream_without_any_item_fails_as_a_dial() -> None:
    world = World([[]])
    result = await world.turn()
    assert result.mid_stream_failure is None
    assert result.failure == TurnFailure(
        FailureKind.OTHER, "the stream ended without a terminal record"
    )


async def test_a_reply_the_provider_gave_up_on_is_a_mid_stream_failure() -> None:
    world = World([[said("half"), final((5, 6), "failed", "overloaded")]])
    result = await world.turn()
    assert result.mid_stream_failure is not None
    assert (result.mid_stream_failure.kind, result.text) == (FailureKind.OTHER, "half")
    assert result.usage.output_tokens == 6
    assert world.journal.of(MessageAssistant)[0].usage.output_tokens == 6


async def test_reasoning_cut_by_the_length_limit_fails_the_turn_without_a_break() -> None:
    world = World([[thought("so"), thought(" long"), final(stop="length")]])
    result = await world.turn()
    assert result.failure is not None
    assert (result.failure.kind, result.mid_stream_failure, result.stop) == (
        FailureKind.OTHER,
        None,
        "length",
    )
    assert (result.text, result.messages) == ("", ())


async def test_an_empty_reply_cut_by_the_length_limit_leaves_no_message() -> None:
    world = World([[final(stop="length")]])
    result = await world.turn()
    assert (result.ended_by, result.messages) == (EndedBy.FAILURE, ())
    assert world.journal.types == ["step.started"]


async def test_an_attempt_that_was_cut_off_is_taken_back_and_counted() -> None:
    world = World([reply(called("c1", "read", {})), reply(said("hi"))], MemoryTool("read"))
    world.interrupted_attempt = 2
    await world.turn()
    assert world.journal.types[:2] == ["step.discarded", "step.started"]
    assert world.journal.of(StepDiscarded) == [StepDiscarded(attempt=2, reason="interrupted")]
    assert [one.attempt for one in world.journal.of(StepStarted)] == [3, 1]
    assert [request.dial for request in world.prepared.requests] == [2, 0]


@dataclass(frozen=True)
class Wait:
    id: str
    attempt: int
    jitter: float
    seconds: float


WAITS = [
    Wait("t16-the-first", 0, 0.0, 0.25),
    Wait("the-first-with-luck", 0, 0.5, 0.375),
    Wait("the-second", 1, 0.0, 0.5),
    Wait("t16-the-fourth", 3, 0.999, 3.998),
    Wait("at-the-cap", 4, 0.0, 4.0),
    Wait("t16-saturated", 1000, 0.999, 7.996),
]


@pytest.mark.parametrize("case", WAITS, ids=lambda case: case.id)
def test_t16_waits_grow_and_saturate(case: Wait) -> None:
    assert backoff_s(case.attempt, case.jitter) == pytest.approx(case.seconds)


@pytest.mark.parametrize("wish", [nan, inf, -1.0])
def test_a_wish_that_cannot_be_read_is_ignored(wish: float) -> None:
    error = ProviderError(FailureKind.TIMEOUT, "slow", retry_after=wish)
    assert retry_wait_s(error, 0, 0.0) == 0.25


def test_the_servers_wish_wins_above_the_cap_up_to_two_minutes() -> None:
    assert retry_wait_s(ProviderError(FailureKind.TIMEOUT, "", retry_after=120.0), 0, 0.0) == 120.0
    assert retry_wait_s(ProviderError(FailureKind.TIMEOUT, "", retry_after=120.1), 0, 0.0) is None
