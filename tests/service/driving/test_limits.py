"""What is left of a run's tokens and time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from app.log.payload import UsageTotals
from app.service.agents.spec import AgentSpec
from app.service.driving.limits import RunLimits


def limits(usage: UsageTotals | None = None, *, active_s: float = 0.0, **of_run: Any) -> RunLimits:
    spec = AgentSpec.model_validate({"model": "script", "limits": of_run})
    return RunLimits.of(spec, usage=usage or UsageTotals(), active_s=active_s, file_bytes=1)


def test_an_agent_without_limits_has_none() -> None:
    none = limits()
    none.spend(UsageTotals(total_tokens=10**9))
    assert none.tokens_spent is False
    assert none.seconds_left() is None


@dataclass(frozen=True)
class TokenCase:
    name: str
    before: UsageTotals
    step: UsageTotals
    spent: bool


TOKENS = [
    TokenCase("below", UsageTotals(), UsageTotals(total_tokens=99), spent=False),
    TokenCase("exactly", UsageTotals(), UsageTotals(total_tokens=100), spent=True),
    TokenCase(
        "with_earlier_turns", UsageTotals(total_tokens=60), UsageTotals(total_tokens=40), True
    ),
    TokenCase(
        "no_total_reported", UsageTotals(), UsageTotals(input_tokens=70, output_tokens=30), True
    ),
    TokenCase("nothing_reported", UsageTotals(total_tokens=99), UsageTotals(), spent=False),
]


@pytest.mark.parametrize("case", TOKENS, ids=lambda case: case.name)
def test_tokens_are_spent_when_the_limit_is_reached(case: TokenCase) -> None:
    of_run = limits(case.before, max_tokens=100)
    of_run.spend(case.step)
    assert of_run.tokens_spent is case.spent


def test_the_deadline_counts_the_time_worked_so_far() -> None:
    assert limits(deadline_s=60, active_s=12.5).seconds_left() == 47.5


def test_a_spent_deadline_leaves_no_time_at_all() -> None:
    assert limits(deadline_s=60, active_s=61.0).seconds_left() == 0.0
