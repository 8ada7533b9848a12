"""The database, started where it is ours and migrated, and the store on it."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from app.service.statements import sealer
from app.store.artifacts.bucket import BucketPlace
from app.store.open import Store, open_bucket
from app.store.schema.migrations import migrate as migrate_tables
from app.store.server.whereabouts import running_database

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from app.providers.summaries import Summarizers
    from app.settings import Settings
    from app.store.artifacts.bucket import Bucket
    from app.trust.keys import SigningKey


@asynccontextmanager
async def open_database(settings: Settings, *, migrate: bool) -> AsyncIterator[str]:
    """The DSN of the database: the one of the settings, or the embedded one, started."""
    async with running_database(settings.database_url, data_dir=settings.data_dir) as dsn:
        if migrate:
            await migrate_tables(settings.database_owner_url or settings.database_direct_url or dsn)
        yield dsn


@dataclass(frozen=True, slots=True)
class Storage:
    """What the store is opened with, once all of it is known to hold."""

    process: str
    key: SigningKey
    bucket: Bucket | None
    summarizers: Summarizers

    @asynccontextmanager
    async def opened(self, settings: Settings, *, migrate: bool) -> AsyncIterator[Store]:
        """The store until the block ends. Raises StoreUnavailable."""
        async with (
            open_database(settings, migrate=migrate) as dsn,
            Store.open(
                dsn,
                process=self.process,
                seal=sealer(self.key),
                direct=settings.database_direct_url,
                summarizer_of=self.summarizers.of,
                bucket=self.bucket,
            ) as store,
        ):
            yield store


def bucket_of(settings: Settings) -> Bucket | None:
    """Where the bytes of artifacts go, if not into the database. Raises Misconfigured."""
    if settings.artifacts_bucket is None:
        return None
    secret = settings.s3_secret_access_key
    keys = settings.s3_access_key_id, None if secret is None else secret.get_secret_value()
    where = settings.artifacts_bucket, settings.s3_endpoint, settings.s3_region
    return open_bucket(BucketPlace(*where, *keys))
