"""The one contract around every embedder: what goes in is made sound, what comes out is checked.

A vector that is wrong in any way would be stored for good and answer wrongly without an error, so
nothing is repaired here but the length (run-context.md 5.4).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, Protocol

from app.errors import Misconfigured
from app.runctx.memory import EmbeddingFailed
from app.runctx.text import without_surrogates

if TYPE_CHECKING:
    from collections.abc import Sequence

    from app.ids import Identity

MAX_TEXTS: Final = 8
MAX_TEXT_BYTES: Final = 8192
MAX_DIMENSION: Final = 2000


class Vectors(Protocol):
    """What makes raw vectors of sound texts; of any length but zero, in the order of the texts."""

    @property
    def id(self) -> str: ...
    @property
    def dimension(self) -> int: ...
    async def of(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """One vector a text. Raises EmbeddingFailed."""
        ...


class ContractEmbedder:
    """The port `Embedder` over a source of vectors. Raises Misconfigured for its dimension."""

    def __init__(self, source: Vectors) -> None:
        if not 1 <= source.dimension <= MAX_DIMENSION:
            raise Misconfigured(
                f"an embedder has 1 to {MAX_DIMENSION} dimensions, found {source.dimension}"
            )
        self._source = source
        self.id: Final = source.id
        self.dimension: Final = source.dimension

    async def embed(self, texts: Sequence[str], *, identity: Identity) -> list[list[float]]:  # noqa: ARG002 - the port's; for accounting, which neither source has
        """One vector of unit length a text, at most 8 texts. Raises EmbeddingFailed."""
        if len(texts) > MAX_TEXTS:
            raise EmbeddingFailed(f"at most {MAX_TEXTS} texts a call, found {len(texts)}")
        if not texts:
            return []
        vectors = await self._source.of([_sound(text) for text in texts])
        if len(vectors) != len(texts):
            raise EmbeddingFailed(f"expected {len(texts)} vectors, found {len(vectors)}")
        return [self._unit(vector) for vector in vectors]

    def _unit(self, vector: Sequence[float]) -> list[float]:
        if len(vector) != self.dimension:
            raise EmbeddingFailed(f"expected {self.dimension} dimensions, found {len(vector)}")
        # Of a vector with NaN or infinity the length is no number that divides.
        length = math.hypot(*vector)
        if not math.isfinite(length) or length == 0:
            raise EmbeddingFailed("a vector is not finite, or has no length")
        return [number / length for number in vector]


def _sound(text: str) -> str:
    """The part of a text that is embedded. Raises EmbeddingFailed for a blank one."""
    raw = without_surrogates(text).encode()[:MAX_TEXT_BYTES]
    cut = raw.decode(errors="ignore")
    if not cut.strip():
        raise EmbeddingFailed("a blank text has no vector")
    return cut
