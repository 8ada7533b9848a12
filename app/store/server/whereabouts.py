"""Where the database is: the one that is named, or the embedded one of the data directory."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from app.store.server.embedded import EmbeddedPostgres
from app.store.server.poolers import check_address

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path


@asynccontextmanager
async def running_database(url: str | None, *, data_dir: Path) -> AsyncIterator[str]:
    """The DSN of a database that runs until the block ends. Raises StoreUnavailable."""
    if url is not None:
        await check_address(url)
        yield url
        return
    embedded = await asyncio.to_thread(EmbeddedPostgres.start, data_dir)
    try:
        yield embedded.dsn
    finally:
        await asyncio.to_thread(embedded.stop)
