"""A generated life of a run, checked against every invariant after every step (turn.md 11).

Scripts, verdicts, answers, standing consents, policies, deaths and cancels come in any order.
Between two turns nothing is kept but the log.
"""

from __future__ import annotations

import inspect
import re

from tests.turn.machine.machines import LIFE, RunMachine, StaffedMachine

NUMBERED = re.compile(r"I(\d+)[:,]")

TestRunMachine = RunMachine.TestCase
TestRunMachine.settings = LIFE


def test_every_invariant_has_its_method() -> None:
    checked = {
        int(found.group(1)): name
        for name, method in inspect.getmembers(RunMachine, inspect.isfunction)
        if (found := NUMBERED.match(method.__doc__ or ""))
    }
    assert sorted(checked) == list(range(1, 25))
    checks = {one.function.__name__ for one in StaffedMachine().invariants}
    assert checks == set(checked.values())
