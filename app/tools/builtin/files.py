"""What the file tools share: their profiles, and the sandbox's answer to a `path` argument.

A file carries the tag of the context that wrote it: `files_write` stores it, `files_read` returns
it with the content, so that text cannot be washed clean by way of a file (turn.md 5.5).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from app.policy.profile import Origin, ToolProfile
from app.tools.paths import SandboxDenied, file_path, normalised

if TYPE_CHECKING:
    from collections.abc import Mapping

READING: Final = ToolProfile(
    Origin.LOCAL_SANDBOX, read_only=True, destructive=False, open_world=False
)
WRITING: Final = ToolProfile(Origin.LOCAL_SANDBOX, destructive=True, open_world=False)


def names_no_file(args: Mapping[str, Any]) -> bool:
    """Whether the sandbox refuses `path` as the path of a file."""
    try:
        file_path(args["path"])
    except SandboxDenied:
        return True
    return False


def names_no_place(args: Mapping[str, Any]) -> bool:
    """Whether the sandbox refuses `path`, if there is one, as a file or a folder."""
    try:
        normalised(args.get("path", ""))
    except SandboxDenied:
        return True
    return False
