"""A generated life of a run, checked against every invariant after every step (turn.md 11).

Scripts, verdicts, answers, standing consents, policies, deaths and cancels come in any order.
Between two turns nothing is kept but the log.
"""

from __future__ import annotations

import pytest

from tests.turn.machine.machines import LIFE, RunMachine, StaffedMachine, checks

# With `--hypothesis-profile=long` it takes a quarter of an hour.
pytestmark = [pytest.mark.unmeasured, pytest.mark.timeout(3600)]
INVARIANTS = {f"I{number}" for number in range(1, 25)}

TestRunMachine = RunMachine.TestCase
TestRunMachine.settings = LIFE


def test_every_invariant_has_its_method() -> None:
    assert checks().keys() == INVARIANTS
    looked_at = {one.function.__name__ for one in StaffedMachine().invariants}
    assert looked_at == set(checks().values())
