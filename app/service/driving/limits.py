"""The limits of a whole run: tokens, the time it is really worked on, files (service.md 4).

Waiting for people costs nothing. Spent tokens stop the run before its next model call, so an answer
that is already there is never thrown away.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from app.turn.ports import StepRefused

if TYPE_CHECKING:
    from app.log.payload import UsageTotals
    from app.service.agents.spec import AgentSpec


class TokensSpent(StepRefused):
    """The run may not ask the model again."""


class DeadlinePassed(Exception):
    """The run has been worked on for as long as it may."""


@dataclass(slots=True)
class RunLimits:
    """What is left of a run's means; None is no limit. A file it keeps has `file_bytes` at most."""

    max_tokens: int | None
    deadline_s: float | None
    tokens: int
    active_s: float
    file_bytes: int

    @classmethod
    def of(
        cls, spec: AgentSpec, *, usage: UsageTotals, active_s: float, file_bytes: int
    ) -> RunLimits:
        """The limits of an agent, less what the run used up in earlier turns."""
        limits = spec.limits
        return cls(limits.max_tokens, limits.deadline_s, _tokens(usage), active_s, file_bytes)

    def spend(self, usage: UsageTotals) -> None:
        """Count the tokens of a step."""
        self.tokens += _tokens(usage)

    @property
    def tokens_spent(self) -> bool:
        """Whether the tokens are used up."""
        return self.max_tokens is not None and self.tokens >= self.max_tokens

    def seconds_left(self) -> float | None:
        """Active seconds that this turn may take."""
        return None if self.deadline_s is None else max(0.0, self.deadline_s - self.active_s)


def _tokens(usage: UsageTotals) -> int:
    return usage.total_tokens or usage.input_tokens + usage.output_tokens
