"""Copies of the working tree: a program is changed there, and the tree stays as it is."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

ROOT: Final = Path(__file__).parents[1]


def copied(share: Path, names: Iterable[str]) -> Path:
    """A copy of those files and folders of the tree, in a new folder."""
    share.mkdir()
    for name in names:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, share / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, share / name)
    return share


def compiled(share: Path, *folders: str) -> None:
    """Compile ahead what a copy imports, which takes longer than most changes need to be noticed.

    A changed module has the time stamp, and often the size, of the original: what is compiled
    counts only for the very text that it was compiled from.
    """
    by_text = ("-q", "--invalidation-mode", "checked-hash", *folders)
    subprocess.run([sys.executable, "-m", "compileall", *by_text], cwd=share, check=True)
