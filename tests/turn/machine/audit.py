"""What every invariant of a machine has: the world it looks at, and when it need not look again."""

from __future__ import annotations

import hashlib
from functools import wraps
from typing import TYPE_CHECKING, TypeVar

from hypothesis.stateful import invariant

from tests.turn.machine.runlog import Moment

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.turn.machine.history import At, Call
    from tests.turn.machine.world import Drive, World

A = TypeVar("A", bound="Audited")


class Audited:
    """Somebody with a world to be audited. `seen` is the state in which each invariant held."""

    world: World
    seen: dict[str, tuple[int, int, int, int]]

    @property
    def state(self) -> tuple[int, int, int, int]:
        """Changes whenever an invariant might."""
        world = self.world
        return (id(world), len(world.events), len(world.drives), len(world.people.tokens))

    def latest(self) -> Iterator[Drive]:
        """The drive that nobody has looked at yet, if there is one."""
        yield from self.world.drives[-1:]

    def stated_in(self, drive: int) -> Iterator[tuple[Call, At]]:
        """What was stated of calls in that drive."""
        for call in self.world.history.calls.values():
            for at in call.stated:
                if at.drive == drive:
                    yield call, at


def holds(check: Callable[[A], None]) -> Callable[[A], None]:
    """An invariant that is looked at after every step which could have broken it."""

    @wraps(check)
    def held(self: A) -> None:
        if self.seen.get(check.__name__) != self.state:
            check(self)
            self.seen[check.__name__] = self.state

    marked: Callable[[A], None] = invariant()(held)
    return marked


def digest(text: str) -> str:
    """The SHA-256 of a text, as starts and decisions name it."""
    return hashlib.sha256(text.encode()).hexdigest()


def was_cancelled(drive: Drive) -> bool:
    """Whether somebody ended the run in the middle of that drive."""
    death = drive.inputs.death
    return drive.result is None and death is not None and death.moment is Moment.CANCEL
