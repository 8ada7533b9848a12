"""docs/script.md: what the page says of programs is what the model reads in them."""

from __future__ import annotations

import re

import pytest

from app.providers.script_program import Call, Speech, parse_program
from tests.architecture.sources import ROOT
from tests.docs.samples import samples

EXAMPLES = {"TEXT": "tea", "WORD": "tea", "{…}": "{}", "TOOL": "clock_now", "KIND": "timeout"}
NUMBERS = re.compile(r"\b(?:N|K|MS|IN|OUT)\b")
ROWS = re.findall(r"^\| `([a-z][^`]*)` \|", (ROOT / "docs/script.md").read_text(), re.MULTILINE)


def test_the_table_has_every_line_of_the_language() -> None:
    words = "say think tokens call rawcall delay usage fail failafter flaky stop obey"
    assert [row.split()[0] for row in ROWS] == words.split()


@pytest.mark.parametrize("row", [row for row in ROWS if row != "say TEXT"])
def test_a_line_of_the_table_is_not_said(row: str) -> None:
    line = NUMBERS.sub("2", row.replace("[", "").replace("]", ""))
    for name, example in EXAMPLES.items():
        line = line.replace(name, example)
    (step,) = parse_program(line).steps
    assert line not in ["".join(part.words) for part in step.parts if isinstance(part, Speech)]


def test_the_sample_plays_as_it_reads() -> None:
    program = parse_program(samples("docs/script.md", "text")["program"])
    kinds = [[type(part) for part in step.parts] for step in program.steps]
    assert kinds == [[Speech, Call], [Call, Call], [Speech, Speech]]
