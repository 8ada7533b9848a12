"""`make mutants`: conditions of the gate, flipped one at a time; the tests must notice each.

cosmic-ray makes the mutants that `mutants.toml` chooses, in copies of the working tree, one copy a
core, so the tree itself is never touched. A survivor is a fault of the tests, unless `mutants.toml`
explains it: then the flipped program means the same. Exits with 1 if there is another one.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
import tomllib
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT: Final = Path(__file__).parents[1]
CONFIG: Final = "mutants.toml"
SESSION: Final = "mutants.sqlite"
COPIED: Final = ("app", "tests", "pyproject.toml", CONFIG)
TOOLS: Final = ROOT / ".tools" / "bin"
# What is true for the type checker alone is no condition of the program.
_NOT_RUN: Final = "if TYPE_CHECKING:"
_SKIP: Final = "INSERT INTO work_results (worker_outcome, job_id) VALUES ('SKIPPED', ?)"
_OPEN: Final = """
    SELECT m.job_id, m.module_path, m.start_pos_row FROM mutation_specs m
    LEFT JOIN work_results w ON w.job_id = m.job_id WHERE w.job_id IS NULL ORDER BY 2, 3, 1
"""
_DONE: Final = """
    SELECT m.module_path, w.test_outcome, w.diff FROM mutation_specs m
    JOIN work_results w ON w.job_id = m.job_id WHERE w.worker_outcome <> 'SKIPPED' ORDER BY 1, 3
"""


@dataclass(frozen=True, slots=True)
class Mutant:
    """A changed line, and whether the tests noticed."""

    module: str
    before: str
    after: str
    is_noticed: bool

    @property
    def name(self) -> str:
        """The change, as `mutants.toml` names it where it explains one."""
        return f"{self.module}: {self.before} -> {self.after}"


def main() -> int:
    """Make all mutants and say which survived."""
    with TemporaryDirectory(prefix="turngate-mutants-") as folder:
        shares = [Path(folder) / str(core) for core in range(len(os.sched_getaffinity(0)))]
        _prepare(shares)
        _require_green(shares[0])
        running = [_start(share, "exec", CONFIG, SESSION) for share in shares]
        codes = [process.wait() for process in running]
        if any(codes):
            raise SystemExit("a run of the mutants broke off")
        mutants = [mutant for share in shares for mutant in _results(share)]
    return _tell(mutants)


def _prepare(shares: list[Path]) -> None:
    """A copy of the tree for each core, with its share of the mutants still to be made."""
    first, *others = shares
    first.mkdir()
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, first / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, first / name)
    for command in (
        ["cosmic-ray", "init", CONFIG, SESSION],
        ["cr-filter-operators", SESSION, CONFIG],
    ):
        subprocess.run([TOOLS / command[0], *command[1:]], cwd=first, check=True)
    for share in others:
        shutil.copytree(first, share)
    for at, share in enumerate(shares):
        _keep(share, at, len(shares))


def _keep(share: Path, at: int, count: int) -> None:
    """Skip what is another's, and what never runs."""
    with closing(sqlite3.connect(share / SESSION)) as session, session:
        for number, (job, module, row) in enumerate(session.execute(_OPEN).fetchall()):
            line = (share / module).read_text().splitlines()[row - 1]
            if number % count != at or line.strip() == _NOT_RUN:
                session.execute(_SKIP, (job,))


def _require_green(share: Path) -> None:
    """Tests that fail for the program as it is would seem to notice every mutant."""
    if _start(share, "baseline", CONFIG).wait():
        raise SystemExit("the tests fail without any mutant: mend them first")


def _start(share: Path, *command: str) -> subprocess.Popen[bytes]:
    """Run cosmic-ray in a share; its copy of the program is the one that is imported.

    Nothing is compiled ahead: a mutant has the time stamp, and often the size, of the original.
    """
    said = {"PYTHONPATH": str(share), "PYTHON": sys.executable, "PYTHONDONTWRITEBYTECODE": "1"}
    environment = os.environ | said  # noqa: TID251 - handed on, not read
    return subprocess.Popen([TOOLS / "cosmic-ray", *command], cwd=share, env=environment)


def _results(share: Path) -> Iterator[Mutant]:
    with closing(sqlite3.connect(share / SESSION)) as session:
        for module, outcome, diff in session.execute(_DONE):
            before, after = (_changed(diff, sign) for sign in "-+")
            yield Mutant(module, before, after, is_noticed=outcome == "KILLED")


def _changed(diff: str, sign: str) -> str:
    """The lines that a diff takes away (-) or adds (+), without those that name the files."""
    lines = [line for line in diff.splitlines() if line.startswith(sign)]
    return " ".join(line[1:].strip() for line in lines if not line.startswith(sign * 3))


def _tell(mutants: list[Mutant]) -> int:
    explained = tomllib.loads((ROOT / CONFIG).read_text())["explained"]
    survivors = [one for one in mutants if not one.is_noticed]
    for one in survivors:
        print(f"survived  {one.name}\n          {explained.get(one.name, 'UNEXPLAINED')}")
    unexplained = [one for one in survivors if one.name not in explained]
    print(f"{len(mutants)} mutants, {len(survivors)} survived, {len(unexplained)} unexplained")
    return bool(unexplained)


if __name__ == "__main__":
    raise SystemExit(main())
