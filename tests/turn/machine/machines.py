"""The two machines, and how long each lives.

One plays a run alone, the other one whose agent has workers.
"""

from __future__ import annotations

import inspect
import re
from typing import TYPE_CHECKING, Final

from hypothesis import settings

from tests.turn.machine.calls_audit import CallsAudit
from tests.turn.machine.consent_audit import ConsentAudit
from tests.turn.machine.kinds import STAFFED
from tests.turn.machine.limits_audit import LimitsAudit
from tests.turn.machine.rules import RunRules

if TYPE_CHECKING:
    from collections.abc import Collection

LIFE: Final = settings(
    max_examples=max(500, settings().max_examples), stateful_step_count=14, deadline=None
)
_NUMBERED: Final = re.compile(r"(I\d+)[:,]")


class RunMachine(RunRules, ConsentAudit, CallsAudit, LimitsAudit):
    """A run alone: questions, mutations, the hatch, consents given in advance."""


class StaffedMachine(RunMachine):
    """A run with two workers: their requests surface on it, and their taint comes back."""

    kinds = STAFFED


MACHINES: Final = {"alone": RunMachine, "staffed": StaffedMachine}


def checks() -> dict[str, str]:
    """The methods that look at an invariant, by its number as in `I9`."""
    return {
        found.group(1): name
        for name, method in inspect.getmembers(RunMachine, inspect.isfunction)
        if (found := _NUMBERED.match(method.__doc__ or ""))
    }


def holding(machine: type[RunMachine], invariants: Collection[str]) -> type[RunMachine]:
    """The machine that looks at these invariants alone, and lets pass what breaks another."""
    others = {name: None for number, name in checks().items() if number not in invariants}
    return type(machine.__name__, (machine,), others)
