"""A generated life of a run, checked against every invariant after every step (turn.md 11).

Scripts, verdicts, answers, standing consents, policies, deaths and cancels come in any order. One
machine plays a run alone, the other one whose agent has workers; between two turns nothing is kept
but the log.
"""

from __future__ import annotations

import inspect
import re

from hypothesis import settings

from tests.turn.machine.calls_audit import CallsAudit
from tests.turn.machine.consent_audit import ConsentAudit
from tests.turn.machine.limits_audit import LimitsAudit
from tests.turn.machine.rules import STAFFED, RunRules

NUMBERED = re.compile(r"I(\d+)[:,]")


class RunMachine(RunRules, ConsentAudit, CallsAudit, LimitsAudit):
    """A run alone: questions, mutations, the hatch, consents given in advance."""


class StaffedMachine(RunMachine):
    """A run with two workers: their requests surface on it, and their taint comes back."""

    kinds = STAFFED


LIFE = settings(
    max_examples=max(500, settings().max_examples), stateful_step_count=14, deadline=None
)
TestRunMachine = RunMachine.TestCase
TestRunMachine.settings = LIFE
TestStaffedMachine = StaffedMachine.TestCase
TestStaffedMachine.settings = LIFE


def test_every_invariant_has_its_method() -> None:
    checked = {
        int(found.group(1)): name
        for name, method in inspect.getmembers(RunMachine, inspect.isfunction)
        if (found := NUMBERED.match(method.__doc__ or ""))
    }
    assert sorted(checked) == list(range(1, 25))
    checks = {one.function.__name__ for one in StaffedMachine().invariants}
    assert checks == set(checked.values())
