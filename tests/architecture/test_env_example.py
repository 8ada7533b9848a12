""".env.example against the settings: every one, with its default and its one line."""

from __future__ import annotations

import re

import pytest

from app.settings import Settings
from tests.architecture.sources import ROOT

PAIR = re.compile(r"# (?P<text>.+)\n#TURNGATE_(?P<name>[A-Z0-9_]+)=(?P<value>.*)")
EXAMPLE = (ROOT / ".env.example").read_text()
LISTED = {found["name"]: found for found in PAIR.finditer(EXAMPLE)}


def written(value: object) -> str:
    """A default as the environment writes it."""
    match value:
        case None | () | {}:
            return ""
        case float() if value.is_integer():
            return str(int(value))
        case _:
            return str(value)


def test_every_setting_is_listed_once_in_the_order_of_the_class() -> None:
    named = re.findall(r"^#?TURNGATE_([A-Z0-9_]+)=", EXAMPLE, re.MULTILINE)
    assert named == [name.upper() for name in Settings.model_fields]


@pytest.mark.parametrize("name", Settings.model_fields)
def test_a_setting_is_listed_with_its_line_and_its_default(name: str) -> None:
    found, field = LISTED[name.upper()], Settings.model_fields[name]
    assert found["text"] == field.description
    assert found["value"] == written(field.get_default(call_default_factory=True))


def test_a_copy_of_the_file_changes_nothing() -> None:
    """Every line is a comment until somebody means it."""
    assert all(not line or line.startswith("#") for line in EXAMPLE.splitlines())
