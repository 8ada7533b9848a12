"""`make faults`: each rule of turn.md 11 broken on purpose; the machines must notice by that rule.

The tables in `tests/turn/machine/faults` hold, for each invariant, faults of the program: a text
that stands once in a module, what to write instead, and what rule that breaks. Each is made in a
copy of the working tree, where the machine it names plays its runs and looks at that invariant
alone. Exits with 1 if one is not noticed: then the machine would also miss such a fault of ours.

    python -m bench.faults [INVARIANT ...]

takes only the faults of these invariants.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

from bench.copies import ROOT, compiled, copied

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from bench.played_fault import Played

TABLES: Final = ROOT / "tests" / "turn" / "machine" / "faults"
COPIED: Final = ("app", "bench", "tests", "pyproject.toml")
MACHINES: Final = ("alone", "staffed")


@dataclass(frozen=True, slots=True)
class Fault:
    """A change that breaks an invariant; `why` says how, `machine` which of the two notices."""

    invariant: str
    module: str
    before: str
    after: str
    why: str
    machine: str

    def applied(self, root: Path) -> str:
        """The module's text with the fault. Raises ValueError where it has no place of its own."""
        text = (root / self.module).read_text()
        if text.count(self.before) != 1:
            raise ValueError(f"{self.module}: {self.before!r} does not stand there exactly once")
        return text.replace(self.before, self.after)


def faults() -> list[Fault]:
    """All faults of the tables, in the order of the invariants."""
    found = [
        Fault(invariant, **one)
        for table in TABLES.glob("*.toml")
        for invariant, ones in tomllib.loads(table.read_text()).items()
        for one in ones
    ]
    return sorted(found, key=lambda one: int(one.invariant[1:]))


def main(only: Sequence[str]) -> int:
    """Make each fault and play; say of each who noticed."""
    chosen = [one for one in faults() if not only or one.invariant in only]
    with TemporaryDirectory(prefix="turngate-faults-") as folder:
        shares: SimpleQueue[Path] = SimpleQueue()
        count = len(os.sched_getaffinity(0))
        for core in range(count):
            share = copied(Path(folder) / str(core), COPIED)
            compiled(share, "app", "tests/support", "tests/turn/machine")
            shares.put(share)
        with ThreadPoolExecutor(count) as pool:
            _require_sound(pool, shares, chosen)
            played = pool.map(lambda fault: _made(shares, fault), chosen)
            return _tell(zip(chosen, played, strict=True))


def _require_sound(pool: ThreadPoolExecutor, shares: SimpleQueue[Path], all_: list[Fault]) -> None:
    """A machine that fails for the program as it is would seem to notice every fault."""

    def played(machine: str) -> Played | None:
        numbers = {one.invariant for one in all_ if one.machine == machine}
        share = shares.get()
        try:
            return _play(share, machine, *sorted(numbers)) if numbers else None
        finally:
            shares.put(share)

    for one in pool.map(played, MACHINES):
        if one is not None and one["by"]:
            raise SystemExit(f"a machine fails without any fault, mend it first: {one}")


def _made(shares: SimpleQueue[Path], fault: Fault) -> Played:
    """Play the fault in one of the shares, which is as it was then."""
    share = shares.get()
    module = share / fault.module
    sound = module.read_text()
    try:
        module.write_text(fault.applied(share))
        return _play(share, fault.machine, fault.invariant)
    finally:
        module.write_text(sound)
        shares.put(share)


def _play(share: Path, machine: str, *invariants: str) -> Played:
    """Let a process of its own play, whose program is that of the share."""
    said = {"PYTHONPATH": str(share), "PYTHONDONTWRITEBYTECODE": "1"}
    environment = os.environ | said  # noqa: TID251 - handed on, not read
    command = [sys.executable, "-m", "bench.played_fault", machine, *invariants]
    done = subprocess.run(
        command, cwd=share, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} broke off:\n{done.stderr}")
    played: Played = json.loads(done.stdout.splitlines()[-1])
    return played


def _tell(played: Iterable[tuple[Fault, Played]]) -> int:
    """A line for each as soon as it is known; how many there were of each invariant."""
    unnoticed = 0
    for fault, came in played:
        is_noticed = came["by"] == fault.invariant
        unnoticed += not is_noticed
        verdict = f"{came['seconds']:6.1f} s" if is_noticed else "NOT NOTICED"
        print(f"{fault.invariant:4}{verdict:>12}  {fault.machine:8}{fault.why}", flush=True)
        if not is_noticed:
            print(f"      {fault.module}: {fault.before!r}\n      {came}", flush=True)
    print(f"{unnoticed} not noticed")
    return bool(unnoticed)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
