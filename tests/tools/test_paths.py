"""Paths of the workspace, and those that the sandbox denies."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from app.tools.paths import SandboxDenied, file_path, normalised


@dataclass(frozen=True)
class Case:
    id: str
    path: str
    plain: str


ACCEPTED = [
    Case("plain", "a.txt", "a.txt"),
    Case("folder", "a/b.txt", "a/b.txt"),
    Case("dots", "./a//b/../c.txt", "a/c.txt"),
    Case("leaves a folder only", "a/../b", "b"),
    Case("trailing slash", "a/", "a"),
    Case("name that begins with dots", "..a", "..a"),
    Case("backslash is a character", "a\\..\\b", "a\\..\\b"),
    Case("1024 bytes", "é" * 512, "é" * 512),
]


@pytest.mark.parametrize("case", ACCEPTED, ids=lambda case: case.id)
def test_a_path_within_the_workspace_has_one_spelling(case: Case) -> None:
    assert file_path(case.path) == case.plain


DENIED = ["/etc/passwd", "//a", "..", "../a", "a/../../b", "a\0b", "é" * 512 + "a"]


@pytest.mark.parametrize("path", DENIED, ids=range(len(DENIED)))
def test_a_path_that_leaves_the_workspace_is_denied(path: str) -> None:
    with pytest.raises(SandboxDenied):
        normalised(path)


@pytest.mark.parametrize("path", ["", ".", "a/.."])
def test_the_workspace_is_a_folder_and_not_a_file(path: str) -> None:
    assert normalised(path) == "."
    with pytest.raises(SandboxDenied, match="of a file"):
        file_path(path)
