"""Folders on disk that others may be changing: no symbolic link is ever followed below the top.

Every path is walked folder by folder, each opened from the one before it, so that whatever is
renamed or replaced meanwhile, what is opened lies below the folder that the walk began with. All of
it blocks, and belongs into a thread.
"""

from __future__ import annotations

import errno
import os
import stat
import threading
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    Parts = tuple[str, ...]

DEEPEST: Final = 64
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NEW_FILE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class DiskRefused(Exception):
    """What is there is no plain file, or is too much; the message is for the model."""


@dataclass(frozen=True, slots=True)
class DiskFile:
    """A regular file below a folder."""

    parts: Parts
    size_bytes: int

    @property
    def path(self) -> str:
        """The path relative to the folder."""
        return "/".join(self.parts)


@contextmanager
def top(path: Path) -> Iterator[int]:
    """The folder a walk begins with; that its own path may be followed is its owner's word."""
    opened = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield opened
    finally:
        os.close(opened)


@contextmanager
def folder(above: int, parts: Sequence[str], *, create: bool = False) -> Iterator[int]:
    """The folder at `parts` below an open one. Raises OSError, for a symbolic link as well."""
    opened = os.dup(above)
    try:
        for name in parts:
            if create:
                with suppress(FileExistsError):
                    os.mkdir(name, 0o755, dir_fd=opened)
            inner = os.open(name, _FOLDER, dir_fd=opened)
            os.close(opened)
            opened = inner
        yield opened
    finally:
        os.close(opened)


def files_below(above: int, start: Parts = (), *, most: int) -> list[DiskFile]:
    """Every regular file at or below `start`, by path. Raises OSError, or DiskRefused over `most`.

    `most` bounds the folders as well, and DEEPEST how deep they lie. What vanishes meanwhile is not
    there.
    """
    found: list[DiskFile] = []
    waiting, seen = [start], 0
    while waiting:
        parts = waiting.pop()
        if len(parts) > DEEPEST:
            raise DiskRefused(f"folders lie within each other at most {DEEPEST} deep")
        try:
            entries = _entries(above, parts, most=most - seen)
        except (FileNotFoundError, NotADirectoryError):
            if parts == start:
                raise
            continue
        seen += entries.count
        found += entries.files
        waiting += entries.folders
    return sorted(found, key=lambda file: file.parts)


@dataclass(slots=True)
class _Entries:
    """What lies right in a folder; `count` counts links and whatever else there is as well."""

    count: int = 0
    files: list[DiskFile] = field(default_factory=list)
    folders: list[Parts] = field(default_factory=list)


def _entries(above: int, parts: Parts, *, most: int) -> _Entries:
    found = _Entries()
    with folder(above, parts) as opened, os.scandir(opened) as entries:
        for entry in entries:
            found.count += 1
            if found.count > most:
                raise DiskRefused("there are too many files and folders")
            place = (*parts, entry.name)
            if entry.is_dir(follow_symlinks=False):
                found.folders.append(place)
            elif entry.is_file(follow_symlinks=False):
                with suppress(FileNotFoundError):
                    size = entry.stat(follow_symlinks=False).st_size
                    found.files.append(DiskFile(place, size))
    return found


def file_size(above: int, parts: Parts) -> int:
    """The bytes of a regular file. Raises OSError, for a symbolic link as well, or DiskRefused."""
    with folder(above, parts[:-1]) as opened:
        found = os.stat(parts[-1], dir_fd=opened, follow_symlinks=False)
    if stat.S_ISLNK(found.st_mode):
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
    if not stat.S_ISREG(found.st_mode):
        raise DiskRefused("expected a regular file")
    return found.st_size


def read_file(above: int, parts: Parts, *, most_bytes: int) -> bytes:
    """The content of a regular file. Raises OSError, or DiskRefused."""
    with folder(above, parts[:-1]) as opened:
        descriptor = os.open(parts[-1], _FILE, dir_fd=opened)
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise DiskRefused("expected a regular file")
        content = file.read(most_bytes + 1)
    if len(content) > most_bytes:
        raise DiskRefused(f"a file has at most {most_bytes} bytes")
    return content


def write_file(above: int, parts: Parts, content: bytes) -> None:
    """Create or replace a file as one act, with the folders it lies in. Raises OSError.

    The new file takes the place of whatever had its name, so that nothing is written through a
    link, symbolic or hard.
    """
    # A thread does one thing at a time, so no other writer has this name; what is there was left
    # behind by a process that died.
    new = f".turngate-{os.getpid()}-{threading.get_ident()}"
    with folder(above, parts[:-1], create=True) as opened:
        with suppress(FileNotFoundError):
            os.unlink(new, dir_fd=opened)
        descriptor = os.open(new, _NEW_FILE, 0o644, dir_fd=opened)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
            os.rename(new, parts[-1], src_dir_fd=opened, dst_dir_fd=opened)
        except BaseException:
            os.unlink(new, dir_fd=opened)
            raise


def delete_file(above: int, parts: Parts) -> None:
    """Remove a file, or a link itself. Raises OSError."""
    with folder(above, parts[:-1]) as opened:
        os.unlink(parts[-1], dir_fd=opened)
