"""The life of a run with workers, in a file of its own: both machines play at the same time."""

from __future__ import annotations

import pytest

from tests.turn.machine.machines import LIFE, StaffedMachine

pytestmark = pytest.mark.unmeasured

TestStaffedMachine = StaffedMachine.TestCase
TestStaffedMachine.settings = LIFE
