"""`turngate rebuild memory`: the vectors of turns that were embedded otherwise, or not at all."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.errors import Misconfigured
from app.main import open_embedder
from app.store.connections import open_pool
from app.store.recall import StoreRecall
from app.store.whereabouts import running_database

if TYPE_CHECKING:
    from app.settings import Settings


async def embed_anew(settings: Settings) -> int:
    """Embed all turns that the embedder of the settings has not; how many there were.

    Raises Misconfigured for a database without vectors, StoreUnavailable, EmbeddingFailed.
    """
    async with (
        running_database(settings.database_url, data_dir=settings.data_dir) as dsn,
        open_embedder(settings) as embedder,
    ):
        pool = await open_pool(dsn)
        try:
            recall = await StoreRecall.opened(pool, embedder)
            if recall is None:
                raise Misconfigured("memory by meaning needs the extension vector (pgvector)")
            return await recall.rebuild()
        finally:
            await pool.close()
