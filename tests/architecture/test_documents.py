"""What the documents name is there: every room on the map, every file, folder and command."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

import pytest

from app.cli import app as command_line
from tests.architecture.sources import APP, ROOT, rooms, tree

if TYPE_CHECKING:
    from pathlib import Path

DOCUMENTS = sorted(
    path.relative_to(ROOT).as_posix() for path in (*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"))
)
PATH = re.compile(r"`((?:app|tests|bench|docs|alembic)/[\w./-]*)`")
LINK = re.compile(r"\]\((?!https?:|#)([^)#]+)")
COMMAND = re.compile(r"`turngate (\w+)")
# A line of the map of a package within a room: a file, and what is in it.
ENTRY = re.compile(r"^- `(\w+)`: ", re.MULTILINE)
# What makes a folder a package, or a command.
MARKS = {"__init__", "__main__"}
MAPPED = (
    "api",
    "cli",
    "engine",
    "log",
    "policy",
    "providers",
    "runctx",
    "service",
    "store",
    "tools",
    "trust",
    "turn",
)


def packages(root: Path) -> set[str]:
    """The packages within the rooms, of the sources or of their tests."""
    marks = (mark for name in MAPPED for mark in (root / name).glob("*/**/__init__.py"))
    return {mark.parent.relative_to(root).as_posix() for mark in marks}


PACKAGES = sorted(packages(APP))
# Protocols have nothing to test, and what the API alone does is tested there.
UNTESTED = {"service/ports", "service/artifacts", "service/skills"}
# The machine plays whole stories of turns.
STORIES = {"turn/machine"}


def test_the_map_names_every_room() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text()
    assert not [room for room in rooms() if f"`{room}`" not in text]


@pytest.mark.parametrize("name", MAPPED)
def test_the_map_of_a_room_names_its_files_and_no_others(name: str) -> None:
    text = ast.get_docstring(tree(APP / name / "__init__.py")) or ""
    rooms_within = {path.parent.name for path in (APP / name).glob("*/__init__.py")}
    files = {path.stem for path in (APP / name).glob("*.py")} - MARKS | rooms_within
    where_to_look = text.partition("Where to look:")[2]
    named = set(re.findall(r"`(\w+)`", where_to_look))
    assert named == files


@pytest.mark.parametrize("name", PACKAGES)
def test_the_map_of_a_package_names_its_files_and_no_others(name: str) -> None:
    files = {path.stem for path in (APP / name).glob("*.py")} - {"__init__"}
    text = ast.get_docstring(tree(APP / name / "__init__.py")) or ""
    assert set(ENTRY.findall(text)) == files


def test_the_tests_of_a_room_have_its_packages_and_no_others() -> None:
    assert packages(ROOT / "tests") - STORIES == set(PACKAGES) - UNTESTED


@pytest.mark.parametrize("name", DOCUMENTS)
def test_what_a_document_names_is_there(name: str) -> None:
    document = ROOT / name
    text = document.read_text()
    missing = [path for path in PATH.findall(text) if not (ROOT / path).exists()]
    dead = [link for link in LINK.findall(text) if not (document.parent / link).exists()]
    assert (missing, dead) == ([], [])


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_document_names_no_command_that_is_not_there(name: str) -> None:
    groups = {group.name for group in command_line.registered_groups}
    known = {
        each.name or each.callback.__name__
        for each in command_line.registered_commands
        if each.callback
    }
    assert set(COMMAND.findall((ROOT / name).read_text())) <= known | groups
