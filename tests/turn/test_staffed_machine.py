"""The life of a run with workers, in a file of its own: both machines play at the same time."""

from __future__ import annotations

from tests.turn.machine.machines import LIFE, StaffedMachine

TestStaffedMachine = StaffedMachine.TestCase
TestStaffedMachine.settings = LIFE
