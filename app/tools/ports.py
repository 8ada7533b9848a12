"""What tools need of the house: files and artifacts of a conversation, and a search over tools.

The store fulfils `WorkspaceStore` and `ToolSearch`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import AsyncIterable, Sequence

    from app.log.queries import ToolQuery, ToolText
    from app.log.records import FileEntry, WorkspaceFile
    from app.policy.taint import Trust
    from app.runctx.ports import SkillStore
    from app.runctx.shapes import ArtifactRef


class FileRefused(Exception):
    """A file cannot be read or written; the message says why, in words for the model."""


class WorkspaceFull(FileRefused):
    """The file, or the workspace with it, would be larger than allowed; the message says which."""


class Workspace(Protocol):
    """The files that the tools of one run see. Paths have passed `app.tools.paths`.

    Every method may raise SandboxDenied or FileRefused.
    """

    async def list(self, place: str = ".") -> Sequence[FileEntry]:
        """The files at or below a place, by path."""
        ...

    async def read(self, path: str) -> tuple[bytes, Trust] | None:
        """Content and tag of a file; None if there is none."""
        ...

    async def write(self, path: str, content: bytes, trust: Trust) -> None:
        """Create or replace a file. Raises WorkspaceFull."""
        ...

    async def delete(self, path: str) -> bool:
        """Remove a file; False if there was none."""
        ...

    async def change(
        self, written: AsyncIterable[tuple[str, bytes]], deleted: Sequence[str], trust: Trust
    ) -> None:
        """Write and remove files of the workspace, all or none. Raises WorkspaceFull."""
        ...

    async def artifact(self, artifact_id: str) -> tuple[ArtifactRef, bytes] | None:
        """An artifact of the conversation; None if there is none, or none any more."""
        ...


class WorkspaceStore(Protocol):
    """The workspace files of one tenant, by conversation."""

    async def list_files(self, conversation_id: str) -> Sequence[FileEntry]: ...
    async def read_file(self, conversation_id: str, path: str) -> WorkspaceFile | None: ...
    async def write_file(
        self, conversation_id: str, file: WorkspaceFile, *, max_total_bytes: int
    ) -> bool:
        """Create or replace; False, and nothing written, if all files together grew beyond that."""
        ...

    async def delete_file(self, conversation_id: str, path: str) -> bool: ...
    async def change_files(
        self,
        conversation_id: str,
        written: AsyncIterable[WorkspaceFile],
        deleted: Sequence[str],
        *,
        max_total_bytes: int,
    ) -> bool:
        """All of it; False, and nothing done, if all files together grew beyond that."""
        ...

    async def copy_files(self, source: str, target: str, places: Sequence[str]) -> Sequence[str]:
        """Make `target` of exactly those files of `source` at or below the places; their paths."""
        ...

    async def artifact(
        self, conversation_id: str, artifact_id: str
    ) -> tuple[ArtifactRef, bytes] | None: ...


class ToolStore(Protocol):
    """The stores that tools read and write, by tenant where they are a tenant's."""

    def workspace(self, tenant: str) -> WorkspaceStore: ...
    def skills(self, tenant: str) -> SkillStore: ...
    @property
    def tool_search(self) -> ToolSearch: ...


class ToolSearch(Protocol):
    """Retrieval over the texts of tools. It knows no tool but those it is handed."""

    async def nearest(
        self, query: ToolQuery, tools: Sequence[ToolText], *, limit: int
    ) -> Sequence[int]:
        """The places in `tools` of those that match, the nearest first, at most `limit`."""
        ...
