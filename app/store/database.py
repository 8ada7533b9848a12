"""The door to the store: the port `Database`."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

import asyncpg

from app.errors import StoreUnavailable
from app.store.schema.migrations import HEAD
from app.store.server.connections import LOST, PASSING, borrowed
from app.store.server.row_security import OneTenant
from app.store.sessions import StoreSession
from app.store.texts import escape
from app.store.transactions import StoreTransaction

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping, Sequence

    from app.log.envelope import Event
    from app.store.artifacts.bucket import Bucket
    from app.store.dispatch.own_wakes import OwnWakes
    from app.store.log.numbering import Sealer
    from app.store.log.tails import Tails
    from app.store.server.connections import Pool

_READY: Final = """
SELECT (SELECT version_num FROM alembic_version) AS version,
    (SELECT count(*) FROM tgq.pgqueuer WHERE status = 'queued') AS queued"""


class StoreDatabase:
    """Sessions and transactions of any tenant."""

    def __init__(
        self,
        pool: Pool,
        tails: Tails,
        *,
        seal: Sealer,
        own_wakes: OwnWakes,
        committed: Callable[[str, Sequence[Event]], None],
        bucket: Bucket | None = None,
    ) -> None:
        self._bucket = bucket
        self._seal = seal
        self._own_wakes = own_wakes
        self._pool = pool
        self._tails = tails
        self._committed = committed

    @asynccontextmanager
    async def session(self, tenant: str) -> AsyncIterator[StoreSession]:
        """Reads of the tenant; each takes a connection for itself alone."""
        try:
            yield StoreSession(OneTenant(self._pool, escape(tenant)), tenant, self._bucket)
        except (*LOST, *PASSING) as error:
            raise StoreUnavailable(f"the database did not answer: {error}") from error

    @asynccontextmanager
    async def transaction(self, tenant: str) -> AsyncIterator[StoreTransaction]:
        """Writes of the tenant; they are committed when the block ends without an error."""
        async with OneTenant(self._pool, escape(tenant)).transaction() as connection:
            transaction = StoreTransaction(
                connection,
                tenant,
                seal=self._seal,
                own_wakes=self._own_wakes,
                bucket=self._bucket,
            )
            yield transaction
            if transaction.woken:
                self._own_wakes.expect(connection.get_server_pid())
        for batch in transaction.written:
            self._tails.see(batch.conversation_id, batch.after)
            self._committed(batch.conversation_id, batch.events)
        for wake in transaction.woken:
            self._own_wakes.give(wake)

    async def ready(self) -> Mapping[str, object]:
        """Facts for the readiness probe; raises StoreUnavailable when the database is not there."""
        try:
            async with borrowed(self._pool) as connection:
                row = await connection.fetchrow(_READY)
        except (asyncpg.UndefinedTableError, asyncpg.InvalidSchemaNameError) as error:
            raise StoreUnavailable("the database has not been migrated") from error
        if row is None or row["version"] != HEAD:
            raise StoreUnavailable(f"the database must be at migration {HEAD}")
        return {"database": True, "migration": row["version"], "queued": row["queued"]}
