"""`make mutants`: conditions of the gate, flipped one at a time; the tests must notice each.

cosmic-ray makes the mutants that `mutants.toml` chooses, in copies of the working tree, one copy a
core, so the tree itself is never touched. A survivor is a fault of the tests, unless `mutants.toml`
explains it: then the flipped program means the same. Exits with 1 if there is another one.

    python -m bench.mutants [PATH ...]

takes only the mutants of modules whose path begins so.
"""

from __future__ import annotations

import ast
import json
import os
import sqlite3
import subprocess
import sys
import tomllib
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final

from bench.copies import ROOT, compiled, copied

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

CHOICE: Final = "mutants.toml"
CONFIG: Final = "session.toml"
SESSION: Final = "session.sqlite"
COPIED: Final = ("alembic", "app", "bench", "tests", "pyproject.toml", CHOICE)
TOOLS: Final = ROOT / ".tools" / "bin"
# What is true for the type checker alone is no condition of the program.
_NOT_RUN: Final = "if TYPE_CHECKING:"
_SKIP: Final = "INSERT INTO work_results (worker_outcome, job_id) VALUES ('SKIPPED', ?)"
_OPEN: Final = """
    SELECT job_id, module_path, operator_name,
        start_pos_row, start_pos_col, end_pos_row, end_pos_col
    FROM mutation_specs ORDER BY module_path, start_pos_row, start_pos_col, operator_name
"""
_DONE: Final = """
    SELECT m.module_path, w.test_outcome, w.diff FROM mutation_specs m
    JOIN work_results w ON w.job_id = m.job_id WHERE w.worker_outcome <> 'SKIPPED' ORDER BY 1, 3
"""


@dataclass(frozen=True, slots=True)
class Suite:
    """Modules, and the tests that hold them: arguments of pytest."""

    modules: tuple[str, ...]
    tests: tuple[str, ...]

    @staticmethod
    def of(chosen: Mapping[str, Any], only: tuple[str, ...]) -> Suite:
        """A suite as it is written down, with those of its modules whose path begins so."""
        modules: list[str] = []
        for pattern in chosen["modules"]:
            found = sorted(str(path.relative_to(ROOT)) for path in ROOT.glob(pattern))
            if not found:
                raise SystemExit(f"{CHOICE}: {pattern} is not there")
            modules += found
        return Suite(tuple(one for one in modules if one.startswith(only)), tuple(chosen["tests"]))

    def config(self, timeout: float) -> str:
        """What cosmic-ray is told; a JSON text is a TOML value."""
        pytest = " ".join(("exec $PYTHON -m pytest -x -q -p no:cacheprovider", *self.tests))
        command = json.dumps(f"sh -c '{pytest}'")
        return "\n".join(
            (
                "[cosmic-ray]",
                f"module-path = {json.dumps(self.modules)}",
                f"timeout = {timeout}",
                "excluded-modules = []",
                f"test-command = {command}",
                "[cosmic-ray.distributor]",
                'name = "local"',
            )
        )


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


def main(only: tuple[str, ...]) -> int:
    """Make the mutants, suite by suite, and say which survived."""
    chosen = tomllib.loads((ROOT / CHOICE).read_text())
    suites = [Suite.of(one, only) for one in chosen["suites"]]
    mutants: list[Mutant] = []
    with TemporaryDirectory(prefix="turngate-mutants-") as folder:
        shares = [Path(folder) / str(core) for core in range(len(os.sched_getaffinity(0)))]
        for share in shares:
            _copy(share)
        for suite in suites:
            if suite.modules:
                mutants += _made(suite, shares, chosen)
    return _tell(mutants, chosen["explained"])


def _copy(share: Path) -> None:
    """A copy of the tree, in which cosmic-ray finds the operator of ours."""
    copied(share, COPIED)
    found = share / "turngate_mutants-1.dist-info"
    found.mkdir()
    (found / "METADATA").write_text("Name: turngate-mutants\nVersion: 1\n")
    (found / "entry_points.txt").write_text(
        "[cosmic_ray.operator_providers]\nturngate = bench.mutations:Mutations\n"
    )


def _compile(share: Path, suite: Suite) -> None:
    """Compile the program ahead, and its tests as pytest does."""
    compiled(share, "app")
    run = (sys.executable, "-m", "pytest", "-q", "--collect-only", "-p", "no:cacheprovider")
    environment = os.environ | {"PYTHONPATH": str(share)}  # noqa: TID251 - handed on, not read
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    subprocess.run(
        (*run, *suite.tests), cwd=share, env=environment, check=True, stdout=subprocess.DEVNULL
    )


def _made(suite: Suite, shares: list[Path], chosen: Mapping[str, Any]) -> Iterator[Mutant]:
    """The mutants of a suite, each made in one of the shares."""
    for at, share in enumerate(shares):
        _compile(share, suite)
        (share / CONFIG).write_text(suite.config(chosen["timeout"]))
        _choose(share, chosen["operators"], (at, len(shares)))
    _require_green(shares[0])
    running = [_start(share, "exec", CONFIG, SESSION) for share in shares]
    codes = [process.wait() for process in running]
    if any(codes):
        raise SystemExit("a run of the mutants broke off")
    print(f"done: {', '.join(suite.modules)}", flush=True)
    for share in shares:
        yield from _results(share)


def _choose(share: Path, operators: Sequence[str], part: tuple[int, int]) -> None:
    """Find the mutants of a suite; skip what is another share's, and what is nobody's."""
    (share / SESSION).unlink(missing_ok=True)
    if _start(share, "init", CONFIG, SESSION).wait():
        raise SystemExit("cosmic-ray finds no mutants")
    number, (at, count) = 0, part
    with closing(sqlite3.connect(share / SESSION)) as session, session:
        for job, module, operator, *span in session.execute(_OPEN).fetchall():
            is_wanted = operator in operators and _says_more(share / module, operator, span)
            if not is_wanted or number % count != at:
                session.execute(_SKIP, (job,))
            number += is_wanted


def _says_more(module: Path, name: str, span: list[int]) -> bool:
    """Whether the program runs it, and no other operator makes the same of it.

    `not` before a bare `:=` is no Python at all.
    """
    row, column, end_row, end_column = span
    lines = module.read_text().splitlines()[row - 1 : end_row]
    if lines[0].strip() == _NOT_RUN:
        return False
    if name != "core/AddNot":
        return True
    lines[-1] = lines[-1][:end_column]
    lines[0] = lines[0][column:]
    match ast.parse(f"({' '.join(lines)})", mode="eval").body:
        case ast.UnaryOp(op=ast.Not()) | ast.NamedExpr():
            return False
        case ast.Compare(ops=[operator]):
            return isinstance(operator, ast.Lt | ast.LtE | ast.Gt | ast.GtE)
        case _:
            return True


def _require_green(share: Path) -> None:
    """Tests that fail for the program as it is would seem to notice every mutant."""
    if _start(share, "baseline", CONFIG).wait():
        raise SystemExit("the tests fail without any mutant: mend them first")


def _start(share: Path, *command: str) -> subprocess.Popen[bytes]:
    """Run cosmic-ray in a share; its copy of the program is the one that is imported."""
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


def _tell(mutants: list[Mutant], explained: Mapping[str, str]) -> int:
    survivors = [one for one in mutants if not one.is_noticed]
    for one in survivors:
        print(f"survived  {one.name}\n          {explained.get(one.name, 'UNEXPLAINED')}")
    unexplained = [one for one in survivors if one.name not in explained]
    print(f"{len(mutants)} mutants, {len(survivors)} survived, {len(unexplained)} unexplained")
    return bool(unexplained)


if __name__ == "__main__":
    raise SystemExit(main(tuple(sys.argv[1:]) or ("",)))
