"""Who is stirred when a log grows, and that nobody is kept when they have gone."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

from app.service.streams.wakeups import Wakeups
from tests.support.stepped_clock import SteppedClock

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from app.log.envelope import Event
    from app.service.ports.signals import Signals


@dataclass
class Bell:
    """The port `Signals`, rung by hand."""

    commit: list[Callable[[str, Sequence[Event]], None]] = field(default_factory=list)
    head: list[Callable[[str, int], None]] = field(default_factory=list)

    def on_commit(self, heard: Callable[[str, Sequence[Event]], None]) -> None:
        self.commit.append(heard)

    def on_head(self, heard: Callable[[str, int], None]) -> None:
        self.head.append(heard)


def listening() -> tuple[Bell, Wakeups]:
    bell, wakeups = Bell(), Wakeups(SteppedClock())
    wakeups.listen(cast("Signals", bell))
    return bell, wakeups


def test_a_commit_of_this_process_stirs_those_who_wait_for_the_conversation() -> None:
    bell, wakeups = listening()
    with wakeups.of_conversation("conv_1") as one, wakeups.of_conversation("conv_2") as other:
        bell.commit[0]("conv_1", [])
        assert (one.is_set(), other.is_set()) == (True, False)


def test_a_commit_of_another_process_stirs_them_as_well() -> None:
    bell, wakeups = listening()
    with wakeups.of_conversation("conv_1") as one:
        bell.head[0]("conv_1", 7)
        assert one.is_set()


def test_f66_every_waiter_of_a_conversation_is_stirred() -> None:
    bell, wakeups = listening()
    with wakeups.of_conversation("conv_1") as one, wakeups.of_conversation("conv_1") as other:
        bell.head[0]("conv_1", 7)
        assert (one.is_set(), other.is_set()) == (True, True)


def test_whoever_has_gone_is_forgotten() -> None:
    bell, wakeups = listening()
    with wakeups.of_conversation("conv_1"):
        pass
    bell.head[0]("conv_1", 7)
    assert not wakeups._waiting


def test_whoever_waits_when_the_process_goes_down_is_stirred() -> None:
    _, wakeups = listening()
    with wakeups.of_conversation("conv_1") as one, wakeups.of_conversation("conv_2") as other:
        wakeups.close()
        assert wakeups.is_closing
        assert one.is_set()
        assert other.is_set()


async def test_whoever_waits_for_enough_looks_again_when_stirred() -> None:
    bell, wakeups = listening()
    seen: list[int] = []

    async def look() -> int:
        seen.append(len(seen))
        bell.head[0]("conv_1", 1)
        return len(seen)

    found = await wakeups.until(look, lambda n: n == 3, conversation_id="conv_1", seconds=60)
    assert (found, seen) == (3, [0, 1, 2])


async def test_nobody_waits_when_the_time_is_up_or_the_process_goes_down() -> None:
    _, wakeups = listening()

    async def look() -> str:
        return "not yet"

    def never(seen: str) -> bool:
        return False

    assert await wakeups.until(look, never, conversation_id="c", seconds=0) == "not yet"
    wakeups.close()
    assert await wakeups.until(look, never, conversation_id="c", seconds=60) == "not yet"
