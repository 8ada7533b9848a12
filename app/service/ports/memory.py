"""What the service needs for memory: stores, summaries, and a way to forget."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from app.ids import Identity
    from app.runctx.memory import MemorySettings
    from app.runctx.ports import MemoryStore, Summarizer


class Memories(Protocol):
    """The memories of this deployment: each way of remembering is a store over the same turns."""

    def memory(self, settings: MemorySettings, *, model: str) -> MemoryStore:
        """What agents with these settings remember; `model` is their own, which may summarise."""
        ...


class Summarizers(Protocol):
    """Who writes summaries."""

    def of(self, agent_model: str) -> Summarizer:
        """The summariser for an agent on that model, which may be the model itself."""
        ...


class MemoryWrites(Protocol):
    """What a request makes memory forget."""

    async def forget_memory(self, identity: Identity, *, run: str | None = None) -> None:
        """Forget what was remembered of the session in whichever way, or the turn of one run."""
        ...
