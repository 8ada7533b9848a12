"""`turngate rebuild memory`: turns that were not stored, and vectors of those that have none."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from app.errors import Misconfigured
from app.main.models import open_embedder
from app.service.clock import SystemClock
from app.service.context.missed_turns import remember_now
from app.store.memory.folding import Folding
from app.store.memory.memories import StoreMemories
from app.store.memory.missed_turns import missed_turns
from app.store.memory.recall import StoreRecall
from app.store.server.connections import open_pool
from app.store.server.row_security import EveryTenant, OneTenant
from app.store.server.whereabouts import running_database
from app.store.sessions import StoreSession
from app.store.texts import escape

if TYPE_CHECKING:
    from app.runctx.ports import Summarizer
    from app.settings import Settings


async def remember_anew(settings: Settings) -> tuple[int, int]:
    """Store what was missed, embed what the embedder of the settings has not; how many of each.

    Raises Misconfigured for a database without vectors, StoreUnavailable, EmbeddingFailed.
    """
    async with (
        running_database(settings.database_url, data_dir=settings.data_dir) as dsn,
        open_embedder(settings) as embedder,
        await open_pool(dsn) as pool,
    ):
        everyone = await EveryTenant.open(dsn, largest=1)
        async with everyone.pool:
            recall = await StoreRecall.made(pool, embedder)
            memories = StoreMemories(pool, recall, Folding(pool, everyone, _nobody))
            since = _kept_since(settings.memory_retention_days)
            missed = await _missed(everyone, memories, since=since)
            return missed, await recall.rebuild(everyone)


async def _missed(everyone: EveryTenant, memories: StoreMemories, *, since: datetime) -> int:
    stored = 0
    for tenant, run_id in await missed_turns(everyone, since=since):
        rows = OneTenant(memories.pool, escape(tenant))
        stored += await remember_now(StoreSession(rows, tenant), memories, run_id)
    return stored


def _kept_since(days: int) -> datetime:
    """From when on turns are kept; 0 days are for ever."""
    return SystemClock().now() - timedelta(days=days) if days else datetime.min.replace(tzinfo=UTC)


def _nobody(model: str) -> Summarizer:
    """This command folds nothing: a worker does, once the claim on what it added has run out."""
    raise Misconfigured(f"nobody summarises for {model!r} here")
