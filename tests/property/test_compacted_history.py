"""What is left of a condensed history is one that every vendor takes (run-context.md 10)."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.engine.agent_run import AgentRun
from app.engine.messages import AssistantMessage, AssistantText, UserMessage
from app.log.runs import HistoryCompacted
from app.policy.taint import Trust
from app.turn.folded import Compacted, CompactionSettings, Folded
from tests.property.test_provider_history import (
    CALLS,
    VENDORS,
    check_acceptable,
    to_the_end,
    world_of,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from app.engine.messages import Message
    from app.turn.folded import Chunk
    from tests.support.turn.world import World

SUMMARY = "<summary>what was</summary>"
BATCHES = st.lists(st.lists(CALLS, min_size=1, max_size=3), min_size=5, max_size=8)


@dataclass(frozen=True)
class Condenser:
    """A compactor with a summary at hand."""

    settings: CompactionSettings

    async def compacted(self, chunk: Chunk) -> Compacted:
        payload = HistoryCompacted(
            reason=chunk.reason,
            from_seq=1,
            through_seq=2,
            pinned_seq=None,
            messages=len(chunk.places),
            tokens_before=chunk.tokens_before,
            tokens_after=chunk.tokens_kept,
            summary_sha256="0" * 64,
            prior_sha256=None,
            model="extract",
        )
        folded = Folded(block=SUMMARY, messages=chunk.cut, pinned=chunk.pinned)
        return Compacted(payload, b"{}", Trust.UNSPECIFIED, folded)


EARLIER: tuple[Message, ...] = (
    UserMessage.of_text("hello"),
    AssistantMessage(content=(AssistantText(text="hello to you"),)),
)


def condensing(
    batches: Sequence[Sequence[tuple[str, str]]], keep: int, *, earlier: int = 0
) -> World:
    """A run that begins with so many exchanges of others."""
    world = world_of(batches)
    world.run = AgentRun.new("do it").with_history(EARLIER * earlier)
    settings = CompactionSettings(max_messages=6, keep_messages=keep, window_share=1.0)
    world.agent = replace(world.agent, compactor=Condenser(settings))
    return world


def condensed(world: World) -> list[Sequence[Message]]:
    """The messages of the requests that the summary stands in."""
    asyncio.run(to_the_end(world, turns=20))
    return [one.messages for one in world.prepared.requests if SUMMARY in one.context]


@pytest.mark.parametrize("vendor", VENDORS)
@given(batches=BATCHES, keep=st.integers(1, 4), earlier=st.integers(0, 4))
def test_f53_a_condensed_history_is_sound_for_every_vendor(
    vendor: str, batches: list[list[tuple[str, str]]], keep: int, earlier: int
) -> None:
    for messages in condensed(condensing(batches, keep, earlier=earlier)):
        check_acceptable(messages, vendor)


@pytest.mark.parametrize("vendor", VENDORS)
def test_f54_what_is_left_may_begin_with_the_model_s_word(vendor: str) -> None:
    """Four exchanges of others, cut behind the question of the last."""
    [messages] = condensed(condensing([], 2, earlier=4))
    assert messages[0] == UserMessage.of_text(
        "(The beginning of this conversation is summarised above.)"
    )
    check_acceptable(messages, vendor)


@pytest.mark.parametrize("keep", [1, 2, 3, 4])
def test_f53_a_history_of_that_length_is_condensed(keep: int) -> None:
    batches = [[("read", '{"n":1}'), ("post", '{"n":1}')]] * 6
    requests = condensed(condensing(batches, keep))
    assert len(requests) >= 2
    assert all(len(messages) <= 8 for messages in requests)
