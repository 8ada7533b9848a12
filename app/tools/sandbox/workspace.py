"""The workspace of one conversation: rows of the store, with bounds (service.md 3)."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from app.log.records import WorkspaceFile
from app.policy.taint import Trust
from app.runctx.attach import trusted_upload
from app.tools.paths import ROOT, SandboxDenied, normalised
from app.tools.ports import WorkspaceFull

if TYPE_CHECKING:
    from collections.abc import AsyncIterable, Sequence

    from app.log.records import FileEntry
    from app.runctx.shapes import ArtifactRef
    from app.tools.ports import WorkspaceStore
    from app.turn.ports import Clock, WorkerScope

MAX_FILE_BYTES: Final = 10 * 1024 * 1024
MAX_WORKSPACE_BYTES: Final = 200 * 1024 * 1024


class ConversationWorkspace:
    """Binds the store's files of a tenant to a conversation.

    A worker's files lie in a `place` of their own; artifacts are the conversation's for everybody
    in it, or a worker could not read what was kept of its own results. With `trusts_uploads` those
    that people uploaded are read as what they say themselves.
    """

    def __init__(
        self,
        store: WorkspaceStore,
        conversation_id: str,
        *,
        clock: Clock,
        place: str | None = None,
        trusts_uploads: bool = False,
    ) -> None:
        self._trusts_uploads = trusts_uploads
        self._store = store
        self._conversation_id = conversation_id
        self._place = conversation_id if place is None else place
        self._clock = clock

    async def list(self, place: str = ROOT) -> Sequence[FileEntry]:
        """The files at or below a place, by path."""
        entries = [
            entry
            for entry in await self._store.list_files(self._place)
            if place in {ROOT, entry.path} or entry.path.startswith(f"{place}/")
        ]
        return sorted(entries, key=lambda entry: entry.path)

    async def read(self, path: str) -> tuple[bytes, Trust] | None:
        """Content and tag of a file; None if there is none."""
        file = await self._store.read_file(self._place, _inside(path))
        return None if file is None else (file.content, Trust.from_byte(file.trust))

    async def write(self, path: str, content: bytes, trust: Trust) -> None:
        """Create or replace a file. Raises WorkspaceFull."""
        written = await self._store.write_file(
            self._place,
            self._file(path, content, trust),
            max_total_bytes=MAX_WORKSPACE_BYTES,
        )
        _require_room(written)

    async def delete(self, path: str) -> bool:
        """Remove a file; False if there was none."""
        return await self._store.delete_file(self._place, _inside(path))

    async def change(
        self, written: AsyncIterable[tuple[str, bytes]], deleted: Sequence[str], trust: Trust
    ) -> None:
        """Write and remove files, all or none. Raises WorkspaceFull."""
        changed = await self._store.change_files(
            self._place,
            (self._file(path, content, trust) async for path, content in written),
            [_inside(path) for path in deleted],
            max_total_bytes=MAX_WORKSPACE_BYTES,
        )
        _require_room(changed)

    def _file(self, path: str, content: bytes, trust: Trust) -> WorkspaceFile:
        """What is to be stored. Raises WorkspaceFull for too large a file."""
        if len(content) > MAX_FILE_BYTES:
            raise WorkspaceFull(
                f"a file has at most {MAX_FILE_BYTES} bytes, found {len(content)} for {path!r}"
            )
        now = datetime.fromtimestamp(self._clock.now_ms() / 1000, UTC)
        return WorkspaceFile(path=_inside(path), content=content, trust=trust, updated_at=now)

    async def artifact(self, artifact_id: str) -> tuple[ArtifactRef, bytes] | None:
        """An artifact of the conversation; None if there is none, or none any more."""
        found = await self._store.artifact(self._conversation_id, artifact_id)
        if found is None or not self._trusts_uploads:
            return found
        ref, content = found
        return trusted_upload(ref), content


def _require_room(is_kept: bool) -> None:
    if not is_kept:
        raise WorkspaceFull(f"all files together have at most {MAX_WORKSPACE_BYTES} bytes")


def _inside(path: str) -> str:
    """The path, which a sandbox however relaxed has not made one of another place."""
    if path.startswith("/"):
        raise SandboxDenied(f"{path!r} is not in the workspace")
    return path


class SharedWorkspace:
    """The way from a conversation's files into the workspaces of its workers."""

    def __init__(self, store: WorkspaceStore, conversation_id: str) -> None:
        self._store = store
        self._conversation_id = conversation_id

    async def copy_in(self, scope: WorkerScope) -> Sequence[str]:
        """Begin the worker's workspace with the files its scope allows; their paths."""
        places = [place for shared in scope.share_in for place in _within(shared)]
        target = worker_place(scope)
        return await self._store.copy_files(self._conversation_id, target, places)


def worker_place(scope: WorkerScope) -> str:
    """Under which id the files of a worker lie: that of its delegation."""
    return f"{scope.run_id}/{scope.call_id}"


def _within(shared: str) -> list[str]:
    """The place in its one spelling; one that leaves the workspace shares nothing."""
    try:
        return [normalised(shared)]
    except SandboxDenied:
        return []
