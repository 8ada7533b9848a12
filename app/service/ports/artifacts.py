"""What the service reads and writes of the files of a conversation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from app.ids import Identity
    from app.log.queries import Page
    from app.runctx.shapes import ArtifactRef, NewArtifact


class ArtifactReads(Protocol):
    """Reads of a tenant's artifacts."""

    async def artifact(self, artifact_id: str) -> ArtifactRef | None: ...
    async def artifacts(self, conversation_id: str, page: Page) -> list[ArtifactRef]:
        """The conversation's artifacts, newest first."""
        ...

    async def artifact_content(self, artifact: ArtifactRef) -> bytes | None:
        """The bytes, unless it was deleted meanwhile. Raises ArtifactCorrupt."""
        ...

    async def artifact_url(self, artifact: ArtifactRef, *, seconds: int) -> str | None:
        """A URL that reads the bytes for so long; None where there is none for them."""
        ...


class ArtifactWrites(Protocol):
    """Writes of a tenant's artifacts."""

    async def put_artifact(self, identity: Identity, new: NewArtifact) -> tuple[ArtifactRef, bool]:
        """Keep a staged file; with False its scope has it already, and only its trust is joined.

        Raises StoreUnavailable if its bytes are not where they are to lie.
        """
        ...

    async def delete_artifact(self, artifact: ArtifactRef) -> None: ...
