"""The ports of this room: what it needs of stores. `app.store` fulfils them (run-context.md 6, 7).

Every method checks the identity's triple first and raises IdentityRequired. What belongs to another
tenant, user or session is not found, never forbidden.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from app.ids import Identity
    from app.runctx.shapes import ArtifactRef, NewArtifact
    from app.runctx.skill import Skill, SkillCard


class ArtifactReader(Protocol):
    """The files of a session. Not found is None."""

    async def get_ref(self, identity: Identity, artifact_id: str) -> ArtifactRef | None: ...
    async def get(self, identity: Identity, artifact_id: str) -> bytes | None:
        """The bytes. Raises ArtifactCorrupt if they are not those that were kept."""
        ...


class ArtifactStore(ArtifactReader, Protocol):
    """Files addressed by their content, within one session."""

    async def put(self, identity: Identity, new: NewArtifact) -> tuple[ArtifactRef, bool]:
        """Keep a file; with False the scope has it already, and only its trust is joined."""
        ...

    async def exists(self, identity: Identity, artifact_id: str) -> bool: ...
    async def delete(self, identity: Identity, artifact_id: str) -> None:
        """Let go of a file; of one that is not there as well."""
        ...

    async def list(self, identity: Identity) -> list[ArtifactRef]:
        """The session's files, newest first, those of one moment by id."""
        ...

    async def aclose(self) -> None: ...


class SkillStore(Protocol):
    """The skills of one tenant. What a revision shows never changes."""

    async def cards(self, identity: Identity, *, revision: int) -> Sequence[SkillCard]:
        """What the identity may see as of a revision: of each name the nearest one."""
        ...

    async def skills(self, identity: Identity, cards: Sequence[SkillCard]) -> Sequence[Skill]:
        """The skills of these cards in full, in their order."""
        ...

    async def matching(self, identity: Identity, query: str, *, revision: int) -> Sequence[str]:
        """Names by full text, best first."""
        ...

    async def file(self, identity: Identity, card: SkillCard, path: str) -> bytes | None: ...
    async def server_tools(self) -> Sequence[str]:
        """The names of all tools of the tenant's MCP servers."""
        ...
