"""One machine played by a process of its own, which looks at some invariants alone.

    python -m bench.played_fault (alone | staffed) INVARIANT ...

The last line it prints is a JSON object that says who noticed anything. The runs are the same each
time, and the first that fails is not made smaller, which would only take time.
"""

from __future__ import annotations

import json
import sys
from time import process_time
from traceback import format_exception_only, walk_tb
from typing import TYPE_CHECKING, TypedDict

from hypothesis import Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.turn.machine.machines import LIFE, MACHINES, checks, holding

if TYPE_CHECKING:
    from collections.abc import Sequence


class Played(TypedDict):
    """`by` is the invariant that noticed, empty if nothing did, else where something broke."""

    by: str
    seconds: float
    said: str


def play(machine: str, invariants: Sequence[str]) -> Played:
    """Play as many runs as the test does, up to the first that fails."""
    lives = settings(
        LIFE,
        phases=(Phase.generate,),
        derandomize=True,
        database=None,
        report_multiple_bugs=False,
    )
    try:
        run_state_machine_as_test(holding(MACHINES[machine], invariants), settings=lives)
    except Exception as failure:  # noqa: BLE001 - whatever it is, it was noticed
        said = "".join(format_exception_only(failure))
        return Played(by=_noticed_by(failure), seconds=process_time(), said=said[:400])
    return Played(by="", seconds=process_time(), said="")


def _noticed_by(failure: Exception) -> str:
    """The invariant whose method was at work; without one, the code that raised."""
    code = [frame.f_code for frame, _ in walk_tb(failure.__traceback__)]
    names = {one.co_name for one in code}
    found = [number for number, name in checks().items() if name in names]
    return found[0] if found else f"{code[-1].co_filename}: {code[-1].co_name}"


if __name__ == "__main__":
    print(json.dumps(play(sys.argv[1], sys.argv[2:])))
