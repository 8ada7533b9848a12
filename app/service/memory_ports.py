"""What the service needs for memory, as a port of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
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
