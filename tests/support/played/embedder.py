"""An embedder without a model: each of its words is a direction, and everything else is another.

PlayedEmbedder("words:3", ("deploy", "cake"))    "deploy deploy cake" lies between the two
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from app.runctx.memory import EmbeddingFailed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from app.ids import Identity


class PlayedEmbedder:
    """Counts words; `asked` are the texts it was given, and it fails while `is_broken`."""

    def __init__(self, embedder: str, words: Sequence[str]) -> None:
        self.id = embedder
        self.dimension = len(words) + 1
        self.asked: list[str] = []
        self.is_broken = False
        self._words = tuple(words)

    async def embed(self, texts: Sequence[str], *, identity: Identity) -> list[list[float]]:
        identity.require()
        self.asked += texts
        if self.is_broken:
            raise EmbeddingFailed("the embedder is broken")
        return [self._unit(text.split()) for text in texts]

    def _unit(self, said: Sequence[str]) -> list[float]:
        counts = [float(said.count(word)) for word in self._words]
        counts.append(0.0 if any(counts) else 1.0)
        length = math.hypot(*counts)
        return [count / length for count in counts]
