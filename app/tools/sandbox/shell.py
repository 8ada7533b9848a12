"""A command's place on disk: a copy of the workspace, and what the command has made of it.

`shell_exec` fills a place, a runner runs the command in it, and what changed is written back. The
copy is read only when nothing of the command runs any more, and without following a link. Whoever
has a place holds a lock on it, which the system releases with the process: a place without one was
left by a process that was killed.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Final, Protocol

from app.tools.paths import MAX_PATH_BYTES
from app.tools.ports import FileRefused, WorkspaceFull
from app.tools.sandbox import disk
from app.tools.sandbox.workspace import MAX_FILE_BYTES, MAX_WORKSPACE_BYTES

COMMAND: Final = "command"
WORKSPACE: Final = "workspace"
MAX_ENTRIES: Final = 20_000
PREFIX: Final = "turngate-shell-"
# A place that was just made has no lock yet, and older releases take none: by then it is over.
LEFT_AFTER_S: Final = 600
_REMOVAL: Final = (("/bin/chmod", "-R", "u+rwX"), ("/bin/rm", "-rf"))


@dataclass(frozen=True, slots=True)
class Ran:
    """How a command ended, and what it printed."""

    exit_code: int
    output: str


class ShellFailed(Exception):
    """The command was ended, or never ran; the message says why, in words for the model."""


class ShellRunner(Protocol):
    """Runs commands apart from everything else."""

    @property
    def why_not(self) -> str | None:
        """Why no command can run here; None if one can."""
        ...

    @property
    def owner(self) -> int | None:
        """The user whom a place must belong to; None for the one we are."""
        ...

    async def run(self, place: ShellPlace, /) -> Ran:
        """Run the place's command to its end. Raises ShellFailed.

        Cancelling kills it, and whatever it has started.
        """
        ...


class NoShell:
    """The runner of a deployment that has none."""

    owner: int | None = None

    def __init__(self, why_not: str) -> None:
        self.why_not = why_not

    async def run(self, _place: ShellPlace, /) -> Ran:
        """Raise ShellFailed."""
        raise ShellFailed(self.why_not)


@dataclass(frozen=True, slots=True)
class Changes:
    """What became of the files: those to write, those that are gone, those that cannot be kept."""

    written: tuple[disk.DiskFile, ...]
    deleted: tuple[str, ...]
    unkept: tuple[str, ...]


class ShellPlace:
    """A private folder with the command and the files. Every method blocks, but for `remove`."""

    def __init__(self, path: Path, owner: int | None) -> None:
        self.path = path
        self._owner = owner
        self._copied: dict[str, bytes] = {}
        self._lock: int | None = None

    @staticmethod
    def made(owner: int | None) -> ShellPlace:
        """A new place, which must be removed. Raises OSError."""
        place = ShellPlace(Path(tempfile.mkdtemp(prefix=PREFIX)), owner)
        place.take()
        place.workspace.mkdir()
        return place

    def old_places(self) -> list[ShellPlace]:
        """Places of ours beside this one that are old enough to have been left behind."""
        made_at = self.path.stat().st_mtime
        old = []
        for path in self.path.parent.glob(f"{PREFIX}*"):
            with suppress(FileNotFoundError):
                found = path.lstat()
                is_ours = found.st_uid in (os.geteuid(), self._owner)
                if is_ours and found.st_mtime < made_at - LEFT_AFTER_S:
                    old.append(ShellPlace(path, self._owner))
        return old

    def take(self) -> bool:
        """Take the place; False where somebody has it, or where there is no such folder."""
        try:
            lock = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        except OSError:
            return False
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(lock)
            return False
        self._lock = lock
        return True

    @property
    def workspace(self) -> Path:
        """The folder that the command works in."""
        return self.path / WORKSPACE

    def put(self, path: str, content: bytes) -> None:
        """Copy a file of the workspace. Raises FileRefused where a disk cannot hold it."""
        parts = tuple(path.split("/"))
        if len(parts) > disk.DEEPEST:
            raise FileRefused(f"{path!r} lies deeper than {disk.DEEPEST} folders")
        try:
            with disk.top(self.workspace) as above:
                disk.write_file(above, parts, content)
        except OSError as error:
            raise FileRefused(f"{path!r} cannot be copied to a disk: {error.strerror}") from error
        self._copied[path] = sha256(content).digest()

    def ready(self, command: str) -> None:
        """Write the command beside the files, and give everything to the owner."""
        (self.path / COMMAND).write_text(command)
        if self._owner is not None:
            for folder, _, names in os.walk(self.path):
                for name in (".", *names):
                    os.chown(Path(folder, name), self._owner, self._owner)

    def changes(self) -> Changes:
        """How the files differ from those that were copied. Raises FileRefused."""
        try:
            with disk.top(self.workspace) as above:
                found = disk.files_below(above, most=MAX_ENTRIES)
                kept = {file.path: file for file in found if _can_be_kept(file)}
                if sum(file.size_bytes for file in kept.values()) > MAX_WORKSPACE_BYTES:
                    raise WorkspaceFull(f"all files have at most {MAX_WORKSPACE_BYTES} bytes")
                changed = [file for file in kept.values() if self._differs(above, file)]
        except (OSError, disk.DiskRefused) as error:
            raise FileRefused(f"the files cannot be read back: {error}") from error
        unkept = [file.path for file in found if file.path not in kept]
        there = {file.path for file in found}
        deleted = [path for path in self._copied if path not in there]
        return Changes(tuple(changed), tuple(deleted), tuple(_shown(path) for path in unkept))

    def read(self, file: disk.DiskFile) -> bytes:
        """The content of a file that the command has left. Raises FileRefused."""
        try:
            with disk.top(self.workspace) as above:
                return disk.read_file(above, file.parts, most_bytes=MAX_FILE_BYTES)
        except (OSError, disk.DiskRefused) as error:
            raise FileRefused(f"{file.path!r} cannot be read back: {error}") from error

    async def remove(self) -> None:
        """Remove everything. The tools of the system do, for no tree is too deep for them."""
        try:
            for removal in _REMOVAL:
                process = await asyncio.create_subprocess_exec(
                    *removal,
                    "--",
                    str(self.path),
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=asyncio.subprocess.DEVNULL,
                    stderr=asyncio.subprocess.DEVNULL,
                )
                await process.wait()
        finally:
            if self._lock is not None:
                os.close(self._lock)
                self._lock = None

    def _differs(self, above: int, file: disk.DiskFile) -> bool:
        before = self._copied.get(file.path)
        content = disk.read_file(above, file.parts, most_bytes=MAX_FILE_BYTES)
        return before is None or sha256(content).digest() != before


def _can_be_kept(file: disk.DiskFile) -> bool:
    """Whether the workspace could hold the file: a path in UTF-8 that is no longer than others."""
    try:
        size = len(file.path.encode())
    except UnicodeEncodeError:
        return False
    return size <= MAX_PATH_BYTES and file.size_bytes <= MAX_FILE_BYTES


def _shown(path: str) -> str:
    return path.encode(errors="replace").decode()[:200]
