"""Commits and pulls in any order, with reads interrupted anywhere: nothing is lost or repeated."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from app.log.envelope import Event
from tests.support.log.memory_log import CONVERSATION, RUN, Heard, MemoryLog, following

if TYPE_CHECKING:
    from app.log.queries import LogScope
    from app.service.streams.subscriptions import Subscription

Move = tuple[Heard, str | None, int]
MOVES = st.lists(
    st.tuples(
        st.sampled_from(("here", "elsewhere")),
        st.sampled_from(("run_1", "run_2", None)),
        st.integers(0, 3),
    ),
    max_size=40,
)


@given(moves=MOVES, in_reads=MOVES)
async def test_whatever_is_committed_wherever_and_read_whenever_arrives_once_in_order(
    moves: list[Move], in_reads: list[Move]
) -> None:
    log = MemoryLog()
    during = iter(in_reads)

    def append_during_read() -> None:
        if (move := next(during, None)) is not None:
            log.append(run_id=move[1], heard=move[0])

    log.before_read = log.after_read = append_during_read
    seen: dict[LogScope, list[int]] = {RUN: [], CONVERSATION: []}
    with following(log, RUN) as run, following(log, CONVERSATION) as conversation:
        readers = {RUN: run, CONVERSATION: conversation}
        for heard, run_id, pulls in moves:
            log.append(run_id=run_id, heard=heard)
            for scope, reader in readers.items():
                await _pull(reader, seen[scope], pulls)
        log.before_read = log.after_read = lambda: None
        log.append("run.completed")
        for scope, reader in readers.items():
            while not seen[scope] or seen[scope][-1] < len(log.events):
                await _pull(reader, seen[scope], 1)
    assert seen[CONVERSATION] == list(range(1, len(log.events) + 1))
    assert seen[RUN] == [event.seq for event in log.events if event.run_id == "run_1"]


async def _pull(reader: Subscription, seen: list[int], count: int) -> None:
    """Up to so many items, as far as there are any just now."""
    for _ in range(count):
        try:
            async with asyncio.timeout(0):
                item = await reader.next()
        except TimeoutError:
            return
        if isinstance(item, Event):
            seen.append(item.seq)
