"""The faults of `make faults` can be made: each has its place in the program as it is today."""

from __future__ import annotations

import pytest

from bench.copies import ROOT
from bench.faults import MACHINES, Fault, faults
from tests.turn.machine import machines


@pytest.mark.parametrize("fault", faults(), ids=lambda fault: f"{fault.invariant} {fault.why}")
def test_a_fault_has_one_place_and_is_a_program_still(fault: Fault) -> None:
    changed = fault.applied(ROOT)
    assert fault.module.startswith("app/")
    assert changed != (ROOT / fault.module).read_text()
    compile(changed, fault.module, "exec")


def test_each_invariant_has_a_fault_and_each_fault_a_machine() -> None:
    assert {one.machine for one in faults()} <= {*MACHINES} == machines.MACHINES.keys()
    assert {one.invariant for one in faults()} == machines.checks().keys()


def test_no_fault_stands_twice() -> None:
    made = [(one.invariant, one.module, one.before, one.after, one.machine) for one in faults()]
    assert len(made) == len(set(made))
