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

    from app.turn.ports import ToolInvocation

RELAXED: Final = "relaxed"
READING: Final = ToolProfile(
    Origin.LOCAL_SANDBOX, read_only=True, destructive=False, open_world=False
)
WRITING: Final = ToolProfile(Origin.LOCAL_SANDBOX, destructive=True, open_world=False)


def file_of(call: ToolInvocation) -> str:
    """The path of the file that a call is about, in the sandbox mode it runs in.

    Raises SandboxDenied.
    """
    return file_path(call.args["path"], relaxed=is_relaxed(call))


def is_relaxed(call: ToolInvocation) -> bool:
    """Whether the decision that lets the call run relaxes its sandbox (turn.md 7.6)."""
    return call.sandbox_mode == RELAXED


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
