"""`make clean` removes all that was made, as the README says, and nothing else."""

from __future__ import annotations

import shutil
import subprocess
from typing import TYPE_CHECKING

from tests.architecture.sources import ROOT

if TYPE_CHECKING:
    from pathlib import Path

# What git passes over although no target makes it: people's settings, their builds and packages.
OF_PEOPLE = {".env", "dist", "*.egg-info", "node_modules"}


def test_everything_that_a_target_makes_is_removed(tmp_path: Path) -> None:
    ignored = {line.rstrip("/") for line in (ROOT / ".gitignore").read_text().split()}
    assert ignored > OF_PEOPLE
    for name in (*ignored, "app/turn/__pycache__"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "file").touch()
    shutil.copy(ROOT / "Makefile", tmp_path)
    words = ["make", "clean"]
    subprocess.run(words, cwd=tmp_path, check=True, capture_output=True)
    assert {path.name for path in tmp_path.iterdir()} == OF_PEOPLE | {"Makefile", "app"}
    assert list((tmp_path / "app" / "turn").iterdir()) == []
