"""How turns become a rolling summary: the queue of ranges and its health. Pure.

run-context.md 5.2, rules 1 to 6. A value is the stored state of one session; each method answers
with the next one. Who may fold when, and the claim on it, are the store's.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from app.policy.taint import Trust
from app.runctx.memory import Health, IllegalHealthTransition, SpilledRange

DEGRADED_AFTER: Final = 3

_ALLOWED: Final = frozenset(
    {
        (Health.HEALTHY, Health.RETRY),
        (Health.RETRY, Health.HEALTHY),
        (Health.RETRY, Health.DEGRADED),
        (Health.DEGRADED, Health.RECOVERING),
        (Health.RECOVERING, Health.HEALTHY),
        (Health.RECOVERING, Health.DEGRADED),
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rolling:
    """A summary of the turns up to `folded_through`, and the ranges that wait to be folded."""

    summary: str = ""
    summary_trust: Trust = Trust.UNSPECIFIED
    folded_through: int = 0
    health: Health = Health.HEALTHY
    failures: int = 0
    pending: tuple[SpilledRange, ...] = ()

    @property
    def shown_summary(self) -> str:
        """The summary where it may be relied upon."""
        return self.summary if self._is_sound else ""

    @property
    def shown_through(self) -> int:
        """The last turn that the shown summary stands for."""
        return self.folded_through if self._is_sound else 0

    @property
    def folds_at_once(self) -> bool:
        """Whether a range is folded as soon as it waits; else it is a worker that looks."""
        return self._is_sound and bool(self.pending)

    def spilled(self, newest: int, *, recent_turns: int, backlog_max: int) -> Rolling:
        """Queue what lies before the newest `recent_turns`; beyond the bound the oldest goes."""
        first = 1 + (self.pending[-1].last if self.pending else self.folded_through)
        last = newest - recent_turns
        if last < first:
            return self
        pending = (*self.pending, SpilledRange(first, last))
        dropped = pending[: max(0, len(pending) - backlog_max)]
        through = dropped[-1].last if dropped else self.folded_through
        return replace(self, pending=pending[len(dropped) :], folded_through=through)

    def with_room_at(self, place: int) -> Rolling:
        """The same once turns from there on have moved by one, for one that comes in late."""
        return replace(self, pending=tuple(_with_room_at(place, one) for one in self.pending))

    def looked_at(self) -> Rolling:
        """A worker takes the oldest range: what was degraded tries to recover."""
        if self.health is Health.DEGRADED:
            return self.moved(Health.RECOVERING)
        return self

    def folded(self, summary: str, trust: Trust) -> Rolling:
        """The oldest range is in the summary now."""
        oldest, *rest = self.pending
        done = replace(
            self,
            summary=summary,
            summary_trust=max(self.summary_trust, trust),
            folded_through=oldest.last,
            failures=0,
            pending=tuple(rest),
        )
        stays = done.health is Health.HEALTHY or (done.health is Health.RECOVERING and rest)
        return done if stays else done.moved(Health.HEALTHY)

    def failed(self) -> Rolling:
        """The oldest range could not be folded; it stays the first."""
        oldest, *rest = self.pending
        again = replace(oldest, attempts=oldest.attempts + 1)
        left = replace(self, failures=self.failures + 1, pending=(again, *rest))
        if left.health is Health.HEALTHY:
            return left.moved(Health.RETRY)
        if left.health is Health.RECOVERING or left.failures >= DEGRADED_AFTER:
            return left.moved(Health.DEGRADED)
        return left

    def moved(self, health: Health) -> Rolling:
        """The same with that health. Raises IllegalHealthTransition."""
        if (self.health, health) not in _ALLOWED:
            raise IllegalHealthTransition(
                f"health goes from {self.health.value} to no {health.value}"
            )
        return replace(self, health=health)

    @property
    def _is_sound(self) -> bool:
        return self.health in (Health.HEALTHY, Health.RETRY)


def _with_room_at(place: int, waiting: SpilledRange) -> SpilledRange:
    if waiting.last < place:
        return waiting
    return replace(waiting, first=waiting.first + (waiting.first > place), last=waiting.last + 1)
