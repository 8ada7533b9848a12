"""The folders outside of the workspace that a call may reach when its approval says so.

They are the operator's (`TURNGATE_SANDBOX_ROOTS`), and a call gets to them only in the sandbox mode
that a signed decision names (turn.md 7.6). An absolute path belongs to the root it lies in as it is
written; below that root no symbolic link is followed.
"""

from __future__ import annotations

import asyncio
import errno
import posixpath
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from app.log.records import FileEntry
from app.policy.taint import Trust
from app.tools.paths import ROOT, SandboxDenied
from app.tools.ports import FileRefused, WorkspaceFull
from app.tools.sandbox import disk
from app.tools.sandbox.workspace import MAX_FILE_BYTES

if TYPE_CHECKING:
    from collections.abc import AsyncIterable, Callable, Iterator, Sequence

    from app.runctx.shapes import ArtifactRef
    from app.tools.ports import Workspace

Result = TypeVar("Result")

MAX_LISTED: Final = 10_000
_LINKED: Final = {errno.ELOOP, errno.ENOTDIR}


class RootedWorkspace:
    """A workspace, and beside it the operator's folders under their absolute paths."""

    def __init__(self, inner: Workspace, roots: Sequence[Path]) -> None:
        self._inner = inner
        # The longest first, so that a root within a root is its own.
        self._roots = sorted(roots, key=lambda root: len(root.parts), reverse=True)

    async def list(self, place: str = ROOT) -> Sequence[FileEntry]:
        """The files at or below a place. Raises SandboxDenied and FileRefused."""
        if not place.startswith("/"):
            return await self._inner.list(place)
        root, parts = self._within(place)
        found = await _in_thread(place, lambda: _listed(root, parts))
        return [FileEntry(posixpath.join(root, file.path), file.size_bytes) for file in found]

    async def read(self, path: str) -> tuple[bytes, Trust] | None:
        """Content and tag of a file; nobody knows who wrote one that lies outside."""
        if not path.startswith("/"):
            return await self._inner.read(path)
        root, parts = self._within(path)
        try:
            content = await _in_thread(path, lambda: _read(root, parts))
        except FileNotFoundError:
            return None
        return content, Trust.QUARANTINED_CONTENT

    async def write(self, path: str, content: bytes, trust: Trust) -> None:
        """Create or replace a file. Raises WorkspaceFull, SandboxDenied and FileRefused."""
        if not path.startswith("/"):
            await self._inner.write(path, content, trust)
            return
        if len(content) > MAX_FILE_BYTES:
            raise WorkspaceFull(f"a file has at most {MAX_FILE_BYTES} bytes")
        root, parts = self._within(path)
        await _in_thread(path, lambda: _written(root, parts, content))

    async def delete(self, path: str) -> bool:
        """Remove a file; False if there was none. Raises SandboxDenied and FileRefused."""
        if not path.startswith("/"):
            return await self._inner.delete(path)
        root, parts = self._within(path)
        try:
            await _in_thread(path, lambda: _deleted(root, parts))
        except FileNotFoundError:
            return False
        return True

    async def artifact(self, artifact_id: str) -> tuple[ArtifactRef, bytes] | None:
        """An artifact of the conversation; it lies in no folder."""
        return await self._inner.artifact(artifact_id)

    async def change(
        self, written: AsyncIterable[tuple[str, bytes]], deleted: Sequence[str], trust: Trust
    ) -> None:
        """Write and remove files of the workspace, all or none. Raises WorkspaceFull."""
        await self._inner.change(written, deleted, trust)

    def _within(self, path: str) -> tuple[Path, disk.Parts]:
        """The root that a path lies in, and the rest of it. Raises SandboxDenied."""
        place = Path(path)
        if ".." in place.parts:
            raise SandboxDenied(f"expected a path without '..', found {path!r}")
        for root in self._roots:
            if place.is_relative_to(root):
                return root, place.relative_to(root).parts
        raise SandboxDenied(f"{path!r} lies in no folder that may be reached from here")


def _listed(root: Path, parts: disk.Parts) -> list[disk.DiskFile]:
    with disk.top(root) as above:
        try:
            return disk.files_below(above, parts, most=MAX_LISTED)
        except NotADirectoryError:
            # It may be a file, which is listed by itself; else this says what is wrong with it.
            return [disk.DiskFile(parts, disk.file_size(above, parts))]
        except FileNotFoundError:
            return []


def _read(root: Path, parts: disk.Parts) -> bytes:
    with disk.top(root) as above:
        return disk.read_file(above, _named(parts), most_bytes=MAX_FILE_BYTES)


def _written(root: Path, parts: disk.Parts, content: bytes) -> None:
    with disk.top(root) as above:
        disk.write_file(above, _named(parts), content)


def _deleted(root: Path, parts: disk.Parts) -> None:
    with disk.top(root) as above:
        disk.delete_file(above, _named(parts))


def _named(parts: disk.Parts) -> disk.Parts:
    if not parts:
        raise disk.DiskRefused("expected the path of a file")
    return parts


async def _in_thread(path: str, work: Callable[[], Result]) -> Result:
    with _explained(path):
        return await asyncio.to_thread(work)


@contextmanager
def _explained(path: str) -> Iterator[None]:
    """What went wrong, in words for the model. A file that is not there is the caller's to tell."""
    try:
        yield
    except FileNotFoundError:
        raise
    except disk.DiskRefused as error:
        raise FileRefused(f"{path!r}: {error}") from error
    except OSError as error:
        if error.errno in _LINKED:
            raise SandboxDenied(f"{path!r} leads through a link, or through a file") from error
        raise FileRefused(f"{path!r}: {error.strerror}") from error
