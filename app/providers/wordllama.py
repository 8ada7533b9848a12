"""The built-in embedder: static vectors that lie in an installed package. No network, no key.

Importing the package takes most of a second, so that is done on first use, in a thread.
"""

from __future__ import annotations

import asyncio
import logging
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

CONFIGURATION: Final = "l2_supercat"
DIMENSION: Final = 256


class WordLlamaVectors:
    """The vectors of WordLlama; one per process, so that they are loaded once."""

    id: Final = f"wordllama:{CONFIGURATION}:{DIMENSION}"
    dimension: Final = DIMENSION

    def __init__(self) -> None:
        self._model: Any = None
        self._loading = asyncio.Lock()

    async def of(self, texts: Sequence[str]) -> list[list[float]]:
        """One vector a text, the same whatever it is asked with."""
        async with self._loading:
            if self._model is None:
                self._model = await asyncio.to_thread(_loaded)
        return await asyncio.to_thread(_embedded, self._model, texts)


def _embedded(model: Any, texts: Sequence[str]) -> list[list[float]]:
    # One by one: the package pads a batch, and then sums in another order.
    return [model.embed([text])[0].tolist() for text in texts]


def _loaded() -> Any:
    package = _imported()
    # Without its own directory as cache the package does not find its tokenizer.
    place = Path(package.__file__).parent
    return package.WordLlama.load(
        CONFIGURATION, cache_dir=place, dim=DIMENSION, disable_download=True
    )


def _imported() -> Any:
    """The package, whose import configures logging unless somebody has."""
    root, occupied = logging.getLogger(), logging.NullHandler()
    root.addHandler(occupied)
    try:
        return import_module("wordllama")
    finally:
        root.removeHandler(occupied)
