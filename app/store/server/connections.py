"""How the store connects: pools, single connections that come back, and the driver's errors.

Nothing above this room sees an error of the driver: what means "not there just now" becomes
StoreUnavailable, everything else is a fault of ours and passes through.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any, Final

import asyncpg

from app.errors import StoreUnavailable
from app.store.server.poolers import address_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Mapping

    from asyncpg.pool import PoolConnectionProxy

    Connection = asyncpg.Connection[asyncpg.Record] | PoolConnectionProxy[asyncpg.Record]
    Pool = asyncpg.Pool[asyncpg.Record]

POOL_SIZE: Final = 10
LOCK_TIMEOUT_S: Final = 10
CONNECT_TIMEOUT_S: Final = 10
FIRST_BACKOFF_S: Final = 0.05
LONGEST_BACKOFF_S: Final = 1.0

# The connection is gone or was refused: whether the last statement happened is not known.
LOST: Final = (
    asyncpg.PostgresConnectionError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    asyncpg.exceptions.AdminShutdownError,
    asyncpg.exceptions.CrashShutdownError,
    asyncpg.exceptions.CannotConnectNowError,
    asyncpg.exceptions.TooManyConnectionsError,
    OSError,
    TimeoutError,
)
# The server is there, but this transaction was rolled back for reasons that pass.
PASSING: Final = (
    asyncpg.exceptions.LockNotAvailableError,
    asyncpg.exceptions.QueryCanceledError,
    asyncpg.exceptions.DeadlockDetectedError,
    asyncpg.exceptions.SerializationError,
    asyncpg.exceptions.InsufficientResourcesError,
)

# What a pooler keeps for each of its clients.
_KEPT: Final = {"application_name": "turngate", "timezone": "UTC"}
SESSION: Final = {
    **_KEPT,
    "lock_timeout": f"{LOCK_TIMEOUT_S}s",
    # A request that hangs with a conversation locked must not hold it for ever.
    "idle_in_transaction_session_timeout": "60s",
    "jit": "off",
}
# For connections with few statements, whose best plan does not depend on what they are about:
# planning one of them anew takes as long as running it.
ROUTINE: Final = {**SESSION, "plan_cache_mode": "force_generic_plan"}
# What is committed here may be forgotten by a crash of the server, and is only done again then.
FORGETFUL: Final = {**ROUTINE, "synchronous_commit": "off"}


async def _keep_as_it_is(_: Any) -> None:
    """Nothing of ours outlives a transaction, so a returned connection needs no reset query."""


async def open_pool(
    dsn: str, *, largest: int = POOL_SIZE, settings: Mapping[str, str] = SESSION
) -> Pool:
    """A pool of request connections. Raises StoreUnavailable."""
    try:
        return await asyncpg.create_pool(
            min_size=1, max_size=largest, reset=_keep_as_it_is, **_options(dsn, settings)
        )
    except (*LOST, asyncpg.PostgresError) as error:
        raise StoreUnavailable(f"the database cannot be reached: {error}") from error


async def connect(
    dsn: str, *, settings: Mapping[str, str] = SESSION
) -> asyncpg.Connection[asyncpg.Record]:
    """One connection outside of the pools. Raises StoreUnavailable."""
    try:
        return await asyncpg.connect(**_options(dsn, settings))
    except (*LOST, asyncpg.PostgresError) as error:
        raise StoreUnavailable(f"the database cannot be reached: {error}") from error


def _options(url: str, settings: Mapping[str, str]) -> dict[str, Any]:
    """How the driver connects. Behind a pooler the next statement may be in another session."""
    address = address_of(url)
    return {
        "dsn": address.dsn,
        "timeout": CONNECT_TIMEOUT_S,
        "server_settings": dict(_KEPT if address.is_pooled else settings),
        "statement_cache_size": 0 if address.is_pooled else 256,
    }


@asynccontextmanager
async def borrowed(pool: Pool) -> AsyncIterator[PoolConnectionProxy[asyncpg.Record]]:
    """A connection of the pool for one block. Raises StoreUnavailable, also for the block."""
    try:
        async with pool.acquire(timeout=LOCK_TIMEOUT_S) as connection:
            yield connection
    except (*LOST, *PASSING) as error:
        raise StoreUnavailable(f"the database did not answer: {error}") from error


@contextmanager
def storing() -> Iterator[None]:
    """A block that asks the database through a pool or a connection. Raises StoreUnavailable."""
    try:
        yield
    except (*LOST, *PASSING) as error:
        raise StoreUnavailable(f"the database did not answer: {error}") from error


_WHO: Final = "SELECT pid, backend_start FROM pg_stat_activity WHERE pid = pg_backend_pid()"
_END: Final = """
SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity
WHERE pid = $1 AND backend_start = $2"""


class SteadyConnection:
    """One connection that is opened when it is needed, and again after it was lost.

    A lost connection's session may still be at work on the server, holding locks. It is ended
    before the next one is handed out; not behind a pooler, where it is somebody else's by then.
    """

    def __init__(self, dsn: str, *, settings: Mapping[str, str] = ROUTINE) -> None:
        self._dsn = dsn
        self._settings = settings
        self.is_pooled = address_of(dsn).is_pooled
        self._open: asyncpg.Connection[asyncpg.Record] | None = None
        self._session: asyncpg.Record | None = None

    async def get(self) -> asyncpg.Connection[asyncpg.Record]:
        """The connection; waits until the server is there. Cancelling is safe."""
        backoff = FIRST_BACKOFF_S
        while self._open is None or self._open.is_closed():
            try:
                self._open = await self._connected()
            except (StoreUnavailable, *LOST):
                await asyncio.sleep(backoff)
                backoff = min(2 * backoff, LONGEST_BACKOFF_S)
        return self._open

    async def close(self) -> None:
        """Close within a second, gently or not."""
        if self._open is None:
            return
        try:
            await self._open.close(timeout=1)
        except LOST:
            self._open.terminate()
        self._open = None

    def drop(self) -> None:
        """Forget a connection whose state is not known."""
        if self._open is not None:
            self._open.terminate()
            self._open = None

    async def _connected(self) -> asyncpg.Connection[asyncpg.Record]:
        connection = await connect(self._dsn, settings=self._settings)
        if self.is_pooled:
            return connection
        try:
            # To know and to end a session is its login's right, whatever role serves there.
            await connection.execute("SET ROLE NONE")
            if self._session is not None:
                await connection.execute(_END, *self._session)
            self._session = await connection.fetchrow(_WHO)
            await connection.execute("RESET ROLE")
        except BaseException:
            connection.terminate()
            raise
        return connection
