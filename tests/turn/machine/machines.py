"""The two machines, and how long each lives.

One plays a run alone, the other one whose agent has workers.
"""

from __future__ import annotations

from typing import Final

from hypothesis import settings

from tests.turn.machine.calls_audit import CallsAudit
from tests.turn.machine.consent_audit import ConsentAudit
from tests.turn.machine.limits_audit import LimitsAudit
from tests.turn.machine.rules import STAFFED, RunRules

LIFE: Final = settings(
    max_examples=max(500, settings().max_examples), stateful_step_count=14, deadline=None
)


class RunMachine(RunRules, ConsentAudit, CallsAudit, LimitsAudit):
    """A run alone: questions, mutations, the hatch, consents given in advance."""


class StaffedMachine(RunMachine):
    """A run with two workers: their requests surface on it, and their taint comes back."""

    kinds = STAFFED
