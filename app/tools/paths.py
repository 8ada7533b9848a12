"""Paths within a workspace: what a model may name, and what the sandbox denies (service.md 3).

Paths are relative POSIX paths. The same check serves the call itself and the question asked before
it, `sandbox_would_deny`, so the two cannot disagree. A call whose approval relaxes the sandbox may
name an absolute path as well; where that may lead is up to `sandbox.roots`.
"""

from __future__ import annotations

import posixpath
from typing import Final

MAX_PATH_BYTES: Final = 1024
ROOT: Final = "."


class SandboxDenied(Exception):
    """The path is outside of the workspace, or none at all; the message says why."""


def normalised(path: str, *, relaxed: bool = False) -> str:
    """The path in its one spelling, `ROOT` for the workspace itself. Raises SandboxDenied."""
    if "\0" in path:
        raise SandboxDenied("a path must not contain NUL")
    if len(path.encode()) > MAX_PATH_BYTES:
        raise SandboxDenied(f"a path has at most {MAX_PATH_BYTES} bytes")
    if path.startswith("/"):
        if relaxed:
            return posixpath.normpath(f"/{path.lstrip('/')}")
        raise SandboxDenied(f"expected a path relative to the workspace, found {path!r}")
    plain = posixpath.normpath(path)
    if plain == ".." or plain.startswith("../"):
        raise SandboxDenied(f"{path!r} leaves the workspace")
    return plain


def file_path(path: str, *, relaxed: bool = False) -> str:
    """The normalised path of a file: anything but the workspace itself. Raises SandboxDenied."""
    if (plain := normalised(path, relaxed=relaxed)) == ROOT:
        raise SandboxDenied(f"expected the path of a file, found {path!r}")
    return plain
