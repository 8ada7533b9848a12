"""The ports of this room: what it needs of stores. `app.store` fulfils them (run-context.md 6, 7).

Every method checks the identity's triple first and raises IdentityRequired. What belongs to another
tenant, user or session is not found, never forbidden.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from pydantic import JsonValue

    from app.ids import Identity
    from app.runctx.memory import (
        ConversationTurn,
        Health,
        LLMContextPatch,
        MemoryState,
        RecallScope,
        SearchResult,
        TurnWritten,
    )
    from app.runctx.shapes import ArtifactRef, NewArtifact
    from app.runctx.skill import Skill, SkillCard


class ArtifactReader(Protocol):
    """The files of a session. Not found is None."""

    async def get_ref(self, identity: Identity, artifact_id: str) -> ArtifactRef | None: ...
    async def get(self, identity: Identity, artifact_id: str) -> bytes | None:
        """The bytes. Raises ArtifactCorrupt if they are not those that were kept."""
        ...


class SessionFiles(ArtifactReader, Protocol):
    """The files of a session, and which there are."""

    async def list(self, identity: Identity) -> list[ArtifactRef]:
        """The session's files, newest first, those of one moment by id."""
        ...


class ArtifactStore(SessionFiles, Protocol):
    """Files addressed by their content, within one session."""

    async def put(self, identity: Identity, new: NewArtifact) -> tuple[ArtifactRef, bool]:
        """Keep a file; with False the scope has it already, and only its trust is joined."""
        ...

    async def exists(self, identity: Identity, artifact_id: str) -> bool: ...
    async def delete(self, identity: Identity, artifact_id: str) -> None:
        """Let go of a file; of one that is not there as well."""
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


class ToolCatalog(Protocol):
    """The tools of a run, as far as its context tells of them."""

    def schemas(self, scopes: Collection[str] | None) -> Sequence[JsonValue]:
        """The schemas of the tools that these scopes show, of all tools where there are none."""
        ...

    def owns(self, name: str) -> bool:
        """Whether the run has a tool of that name."""
        ...

    def reader_of(self, media_type: str) -> str | None:
        """The first tool that says it reads such files, if any does."""
        ...


class MemoryStore(Protocol):
    """What sessions remember (run-context.md 5). After `aclose` all raise StoreClosed."""

    async def add_turn(self, identity: Identity, turn: ConversationTurn) -> TurnWritten:
        """Store a finished exchange. The turn of one run is stored once."""
        ...

    async def add_late_turn(self, identity: Identity, turn: ConversationTurn) -> TurnWritten:
        """Store one that should have been before, in its place in time as far as that can be.

        `add_turn` would make it the newest, and an old exchange would end the window.
        """
        ...

    async def get_llm_context(self, identity: Identity) -> LLMContextPatch: ...
    async def search_turns(
        self, identity: Identity, query: str, *, top_k: int, scope: RecallScope
    ) -> SearchResult:
        """Turns by meaning, best first. Raises EmptyQuery, SemanticDisabled, EmbedderMismatch."""
        ...

    async def estimate_tokens(self, identity: Identity) -> int: ...
    async def flush(self, identity: Identity) -> None:
        """Forget turns, vectors, summary and queue."""
        ...

    async def health(self, identity: Identity) -> Health: ...
    async def export_state(self, identity: Identity) -> MemoryState: ...
    async def import_state(self, identity: Identity, state: MemoryState) -> None:
        """Put a session's memory back. Raises MemoryStateMismatch."""
        ...

    async def aclose(self) -> None: ...


class Embedder(Protocol):
    """Texts to vectors of unit length, in their order (run-context.md 5.4)."""

    @property
    def id(self) -> str:
        """Names the vector space: vectors of two ids are never compared."""
        ...

    @property
    def dimension(self) -> int: ...
    async def embed(self, texts: Sequence[str], *, identity: Identity) -> list[list[float]]:
        """One vector a text. Blank texts are errors; the identity is for accounting only."""
        ...


class Summarizer(Protocol):
    """Condenses what will not be shown in full any more (run-context.md 5.2, 10)."""

    @property
    def model(self) -> str:
        """What writes the summaries, as the log names it."""
        ...

    async def summarize(self, prior: str, items: Sequence[str], *, identity: Identity) -> str:
        """The prior summary with the items merged in. Blank text is a failure of its own."""
        ...
