"""The life of a run with workers, in a file of its own: both machines play at the same time."""

from __future__ import annotations

import pytest

from tests.turn.machine.machines import LIFE, StaffedMachine

# With `--hypothesis-profile=long` it takes a quarter of an hour.
pytestmark = [pytest.mark.unmeasured, pytest.mark.timeout(3600)]

TestStaffedMachine = StaffedMachine.TestCase
TestStaffedMachine.settings = LIFE
