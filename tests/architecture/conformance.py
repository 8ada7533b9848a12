"""Which test shows which numbered line of a specification, read off the tests themselves.

A test names the lines it shows in its name (`test_t46_…`) or in its docstring ("F52, F53"), and so
do the invariants and rules of a machine; a case of the AgentRun data names those it covers.
`python -m tests.architecture.conformance` writes `docs/conformance.md`. The table of gaps at its
end is kept by hand, and carried over.
"""

from __future__ import annotations

import ast
import json
import re
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tests.architecture.sources import ROOT, Function, functions

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

DOCUMENT: Final = ROOT / "docs" / "conformance.md"
CASES: Final = ROOT / "tests" / "engine" / "data" / "agent-run-cases.json"
CASE_TEST: Final = "tests/engine/test_agent_run_cases.py::test_the_case_holds"

_NAMED: Final = re.compile(r"^test((?:_[a-z]\d{1,3})+)_")
_NUMBER: Final = re.compile(r"\b([A-Z])(\d{1,3})\b")
_OF_MACHINE: Final = re.compile(r"(?:invariant|rule)\(|holds$")
_GAP: Final = re.compile(r"^\| ([A-Z]\d+) \| ([^|]+) \|$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Specification:
    """A numbered list of behaviours: the letter of its numbers and how many there are."""

    title: str
    letter: str
    count: int

    def numbers(self) -> Iterator[str]:
        """Every number of the list, in order."""
        return (f"{self.letter}{n}" for n in range(1, self.count + 1))


SPECIFICATIONS: Final = (
    Specification("The turn (turn.md 12)", "T", 145),
    Specification("Invariants of the turn (turn.md 11)", "I", 24),
    Specification("AgentRun (agent-run.md 15)", "A", 222),
    Specification("Properties of AgentRun (agent-run.md 14)", "P", 20),
    Specification("Run context (run-context.md 11)", "C", 177),
    Specification("Faults others shipped (field-cases.md)", "F", 135),
)

NUMBERS: Final = frozenset(number for one in SPECIFICATIONS for number in one.numbers())

INTRODUCTION: Final = """# Conformance

Every numbered behaviour of the specifications, and the tests that show it. The tests name the
numbers; this page is written from them with `python -m tests.architecture.conformance`, and a test
fails when it is out of date, when a number is in neither table, or when a gap has been closed. The
reasons in the last table are written by hand.
"""
GAPS: Final = "## Not shown by a test yet"


def shown() -> Mapping[str, list[str]]:
    """The ids of the tests that show each number."""
    found: defaultdict[str, list[str]] = defaultdict(list)
    for path in sorted((ROOT / "tests").rglob("*.py")):
        for number, test in _of_file(path):
            found[number].append(test)
    for case in json.loads(CASES.read_text())["cases"]:
        for number in case["covers"]:
            found[number].append(f"{CASE_TEST}[{case['id']}]")
    return found


def gaps() -> Mapping[str, str]:
    """The numbers the page says no test shows, each with the reason why."""
    return dict(_GAP.findall(DOCUMENT.read_text().partition(GAPS)[2])) if DOCUMENT.exists() else {}


def page() -> str:
    """The page as it should be."""
    found, missing = shown(), gaps()
    parts = [INTRODUCTION]
    for one in SPECIFICATIONS:
        rows = [(number, _ids(found[number])) for number in one.numbers() if number in found]
        parts.append(f"## {one.title}\n\n" + _table("tests", rows))
    if open_ := [(number, why) for number, why in missing.items() if number not in found]:
        parts.append(f"{GAPS}\n\n" + _table("why", open_))
    return "\n".join(parts)


def _of_file(path: Path) -> Iterator[tuple[str, str]]:
    for function in functions(path):
        if function.name.startswith("test_") or _is_of_machine(function):
            test = f"{path.relative_to(ROOT)}::{function.name}"
            yield from ((number, test) for number in sorted(_numbers(function)))


def _is_of_machine(function: Function) -> bool:
    """Whether it is an invariant or a step of a stateful machine."""
    return any(_OF_MACHINE.match(ast.unparse(one)) for one in function.decorator_list)


def _numbers(function: Function) -> set[str]:
    named = _NAMED.match(function.name)
    text = named[1].upper().replace("_", " ") if named else ""
    text += " " + (ast.get_docstring(function) or "")
    return {
        number for number in (f"{m[1]}{m[2]}" for m in _NUMBER.finditer(text)) if number in NUMBERS
    }


def _ids(tests: list[str]) -> str:
    return "<br>".join(f"`{test}`" for test in tests)


def _table(heading: str, rows: list[tuple[str, str]]) -> str:
    lines = [f"| number | {heading} |", "|---|---|", *(f"| {one} | {two} |" for one, two in rows)]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    DOCUMENT.write_text(page())
