"""The threat model claims nothing without a test that exists."""

from __future__ import annotations

import re

from tests.architecture.sources import ROOT

DOCUMENT = (ROOT / "docs" / "threat-model.md").read_text()
NAMED = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")


def test_every_named_test_exists() -> None:
    missing = [
        f"{path}::{name}"
        for path, name in NAMED.findall(DOCUMENT)
        if not (ROOT / path).exists() or f"def {name}(" not in (ROOT / path).read_text()
    ]
    assert missing == []


def test_every_line_of_the_tables_names_its_test() -> None:
    lines = [line for line in DOCUMENT.splitlines() if line.startswith("| ")]
    rows = [line for line in lines if not line.endswith("Shown by |")]
    assert len(lines) - len(rows) == 3
    assert [row for row in rows if NAMED.search(row) is None] == []
    assert len(rows) >= 20
