from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from app.errors import StoreUnavailable
from app.log.envelope import Event
from app.service.refusals import NotFound
from app.service.streams import subscriptions
from app.service.streams.subscriptions import CaughtUp, Demoted, Ended, Subscription, Subscriptions
from tests.support.log.memory_log import CONVERSATION, RUN, Heard, MemoryLog, following

if TYPE_CHECKING:
    from collections.abc import Callable

    from app.log.queries import LogScope

MIB = 1 << 20


async def pulled(subscription: Subscription, count: int) -> list[object]:
    """The next items: seqs of events, and everything else as it is."""
    items = [await subscription.next() for _ in range(count)]
    return [item.seq if isinstance(item, Event) else item for item in items]


async def until_caught_up(subscription: Subscription) -> list[int]:
    """The seqs of the events before the reader is live."""
    seqs: list[int] = []
    while not isinstance(item := await subscription.next(), CaughtUp):
        assert isinstance(item, Event)
        seqs.append(item.seq)
    return seqs


async def to_the_end(subscription: Subscription) -> list[int]:
    """The seqs of all events before the end of the run."""
    seqs: list[int] = []
    while not isinstance(item := await subscription.next(), Ended):
        if isinstance(item, Event):
            seqs.append(item.seq)
    return seqs


async def test_a_reader_gets_what_follows_its_seq_then_what_comes_and_is_told_once_in_between() -> (
    None
):
    log = MemoryLog()
    for _ in range(3):
        log.append()
    with following(log, after=1) as reader:
        assert await pulled(reader, 3) == [2, 3, CaughtUp()]
        log.append()
        log.append()
        assert await pulled(reader, 2) == [4, 5]


async def test_the_live_path_reads_nothing_from_the_database() -> None:
    log = MemoryLog()
    log.append()
    with following(log) as reader:
        await until_caught_up(reader)
        for _ in range(100):
            log.append()
            await reader.next()
        assert log.pages_read == 1


async def test_a_terminal_event_in_the_replay_ends_the_stream_of_a_run() -> None:
    log = MemoryLog()
    log.append()
    log.append("run.failed")
    with following(log) as reader:
        assert await pulled(reader, 4) == [1, 2, Ended("failed"), Ended("failed")]


async def test_a_terminal_event_does_not_end_the_stream_of_a_conversation() -> None:
    log = MemoryLog()
    log.append("run.completed")
    with following(log, CONVERSATION) as reader:
        assert await pulled(reader, 2) == [1, CaughtUp()]
        log.append(run_id="run_2")
        assert await pulled(reader, 1) == [2]


async def test_a_run_stream_has_the_seqs_of_the_conversation_and_only_its_own_events() -> None:
    log = MemoryLog()
    for run_id in (None, "run_1", "run_2", "run_1"):
        log.append(run_id=run_id)
    with following(log) as reader:
        assert await until_caught_up(reader) == [2, 4]
        log.append(run_id="run_2")
        log.append(run_id="run_1")
        assert await pulled(reader, 1) == [6]
        assert log.pages_read == 1


async def test_an_event_heard_twice_or_late_is_handed_out_once() -> None:
    log = MemoryLog()
    first, second = log.append(heard="nowhere"), log.append(heard="nowhere")
    with following(log) as reader:
        log.tell([first])
        assert await until_caught_up(reader) == [1, 2]
        log.tell([second])
        log.tell([first, second])
        log.append()
        assert await pulled(reader, 1) == [3]


async def test_commits_heard_out_of_order_are_handed_out_in_order() -> None:
    log = MemoryLog()
    with following(log) as reader:
        await until_caught_up(reader)
        first = log.append(heard="nowhere")
        second = log.append(heard="nowhere")
        log.tell([second])
        log.tell([first])
        assert await pulled(reader, 2) == [1, 2]


@dataclass(frozen=True)
class Step:
    """A moment of a subscription at which an event is appended, and who hears of it."""

    moment: str
    heard: Heard


STEPS = [
    Step(moment, heard)
    for moment in ("before following", "before reading", "while reading", "when live")
    for heard in ("here", "elsewhere", "nowhere")
]


@pytest.mark.parametrize("step", STEPS, ids=lambda step: f"{step.moment}, heard {step.heard}")
async def test_an_event_appended_at_any_step_arrives_once(
    step: Step, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F62: neither the first events nor the last are lost."""
    monkeypatch.setattr(subscriptions, "FIRST_POLL_S", 0.01)
    log = MemoryLog()
    log.append()
    append = once(
        lambda: log.commit(
            [
                log.event(),
            ],
            heard=step.heard,
        )
    )
    if step.moment == "before following":
        append()
    elif step.moment == "before reading":
        log.before_read = append
    elif step.moment == "while reading":
        log.after_read = append
    with following(log) as reader:
        had = await pulled(reader, 1)
        if step.moment == "when live":
            await until_caught_up(reader)
            append()
        log.append("run.completed", heard=step.heard)
        assert [*had, *await to_the_end(reader)] == [1, 2, 3]


async def test_a_slow_reader_costs_its_outbox_and_gets_everything() -> None:
    log = MemoryLog()
    with following(log, CONVERSATION) as reader:
        await until_caught_up(reader)
        for _ in range(100):
            log.append(size=100_000)
        assert waiting_bytes(reader) <= MIB
        assert await pulled(reader, 100) == list(range(1, 101))
        log.append()
        assert await pulled(reader, 1) == [101]


async def test_a_page_of_long_events_is_followed_by_shorter_pages() -> None:
    log = MemoryLog()
    for _ in range(300):
        log.append(size=100_000)
    with following(log, CONVERSATION) as reader:
        await pulled(reader, 257)
        assert waiting_bytes(reader) <= MIB
        assert await pulled(reader, 43) == list(range(258, 301))


async def test_a_log_that_fills_its_pages_exactly_is_read_to_its_end() -> None:
    log = MemoryLog()
    for _ in range(512):
        log.append()
    with following(log, CONVERSATION) as reader:
        assert await until_caught_up(reader) == list(range(1, 513))


async def test_a_reader_that_is_cut_off_while_it_waits_loses_nothing() -> None:
    log = MemoryLog()
    with following(log) as reader:
        await until_caught_up(reader)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.001):
                await reader.next()
        log.append()
        assert await pulled(reader, 1) == [1]


async def test_a_hint_that_was_lost_is_made_up_by_looking(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subscriptions, "FIRST_POLL_S", 0.01)
    log = MemoryLog()
    with following(log) as reader:
        await until_caught_up(reader)
        log.append(heard="nowhere")
        assert await pulled(reader, 1) == [1]


async def test_a_reader_that_waits_sits_an_outage_of_the_database_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(subscriptions, "FIRST_POLL_S", 0.01)
    log = MemoryLog()
    looks = iter(range(2))

    def away_twice() -> None:
        if next(looks, None) is not None:
            raise StoreUnavailable("away")

    log.before_head = away_twice
    with following(log) as reader:
        await until_caught_up(reader)
        log.append(heard="nowhere")
        assert await pulled(reader, 1) == [1]


async def test_a_reader_that_is_behind_in_an_outage_is_told_and_may_try_again() -> None:
    log = MemoryLog()
    log.append()

    def away() -> None:
        raise StoreUnavailable("away")

    log.before_read = away
    with following(log) as reader:
        with pytest.raises(StoreUnavailable):
            await reader.next()
        log.before_read = lambda: None
        assert await pulled(reader, 1) == [1]


async def test_a_demotion_comes_before_further_events() -> None:
    log = MemoryLog()
    log.append()
    with following(log) as reader:
        reader.demote("timeout")
        assert await pulled(reader, 2) == [Demoted("timeout"), 1]


async def test_a_reader_that_starts_at_the_end_of_a_run_is_told_at_once() -> None:
    log = MemoryLog()
    log.append("run.cancelled")
    with following(log, after=1) as reader:
        reader.end("cancelled")
        assert await pulled(reader, 1) == [Ended("cancelled")]
        assert log.pages_read == 0


async def test_readers_of_one_conversation_do_not_take_from_each_other() -> None:
    log = MemoryLog()
    all_of_them = Subscriptions(log.database)
    all_of_them.listen(log.signals)
    with (
        all_of_them.follow("acme", CONVERSATION, after=0, looked_at=0, look=log.look) as one,
        all_of_them.follow("acme", CONVERSATION, after=0, looked_at=0, look=log.look) as other,
        all_of_them.follow("acme", RUN, after=0, looked_at=0, look=log.look) as third,
    ):
        log.append()
        for reader in (one, other, third):
            assert await pulled(reader, 2) == [1, CaughtUp()]


@pytest.mark.parametrize("scope", [RUN, CONVERSATION])
@pytest.mark.parametrize("heard", ["here", "elsewhere"])
async def test_who_no_longer_takes_part_gets_nothing_that_follows_the_update(
    scope: LogScope, heard: Heard
) -> None:
    log = MemoryLog()
    log.append()
    with following(log, scope) as reader:
        assert await pulled(reader, 2) == [1, CaughtUp()]
        log.is_closed = True
        log.append("conversation.updated", run_id=None, heard=heard)
        log.append(heard=heard)
        for _ in range(2):
            with pytest.raises(NotFound):
                await reader.next()


async def test_an_update_while_the_reach_is_looked_up_is_looked_at_as_well() -> None:
    log = MemoryLog()
    with following(log) as reader:
        await until_caught_up(reader)
        log.append("conversation.updated", run_id=None)
        log.on_look = once(lambda: log.append("conversation.updated", run_id=None))
        log.append()
        assert await pulled(reader, 1) == [2]
        assert log.looks == 2


async def test_a_run_alone_in_its_conversation_costs_no_look() -> None:
    log = MemoryLog()
    log.append()
    with following(log) as reader:
        await until_caught_up(reader)
        log.append(heard="elsewhere")
        log.append()
        assert await pulled(reader, 2) == [2, 3]
        assert log.looks == 0


async def test_what_was_there_when_the_reach_was_looked_up_costs_no_look() -> None:
    log = MemoryLog()
    log.append("conversation.created", run_id=None)
    log.append()
    for looked_at, looks in ((2, 0), (1, 1)):
        with following(log, looked_at=looked_at) as reader:
            assert await pulled(reader, 2) == [2, CaughtUp()]
            assert log.looks == looks


def once(act: Callable[[], object]) -> Callable[[], None]:
    """`act`, at the first call only."""
    pending = [act]

    def call() -> None:
        if pending:
            pending.pop()()

    return call


def waiting_bytes(reader: Subscription) -> int:
    """What the outbox holds."""
    return sum(len(event.body) for event in reader._outbox)
