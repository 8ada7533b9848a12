"""The memories of a deployment: the port `Memories`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from app.errors import Misconfigured
from app.store.memory.plain import StoreMemory
from app.store.memory.rolling import RollingMemory

if TYPE_CHECKING:
    from app.runctx.memory import MemorySettings
    from app.store.memory.folding import Folding
    from app.store.memory.recall import StoreRecall
    from app.store.server.connections import Pool


@dataclass(frozen=True, slots=True)
class StoreMemories:
    """Each way of remembering is a store over the same turns."""

    pool: Pool
    recall: StoreRecall | None = None
    folding: Folding | None = None

    def memory(self, settings: MemorySettings, *, model: str) -> StoreMemory:
        """What agents with these settings remember; `model` is their own.

        Raises Misconfigured for what this store cannot do.
        """
        if settings.strategy != "rolling_summary":
            return StoreMemory(self.pool, settings, recall=self.recall)
        if self.folding is None:
            raise Misconfigured("rolling_summary needs a summariser")
        return RollingMemory(
            self.pool, settings, folding=self.folding, model=model, recall=self.recall
        )
