"""Row-level security: whose rows a statement may see, said to Postgres with the statement itself.

Every query filters by its tenant; this is what holds when one forgets to. The design:

1. Each table with a column `tenant` has one policy (`secure_tenant_tables()`, which every migration
   ends with): a row is seen and written only where `turngate.tenant` is its tenant, which is read
   once a statement. RLS is forced, so it binds a plain owner too. Who sets nothing sees nothing.
2. The service acts as `turngate_service`, which owns nothing, is no superuser and may not change
   what is in `events`. A login that is above RLS takes that role with the connection, at no cost;
   where it cannot, the store does not open. Migrations run as the login itself.
3. No round trip is added. A transaction sets its tenant in the batch of its BEGIN. A single read
   has it set by a one-time filter, which Postgres evaluates before it looks at any row; were it
   evaluated later, nothing would be seen. Both end with the transaction, so a pooler is fine.
4. The narrow path is `EveryTenant`, for what belongs to no tenant: leases, appends under a lease,
   the sweeps, holds, revocations, rebuilds. Its connections say so once, when they are opened, or,
   behind a pooler, in each transaction.

The policy is a CASE, which the planner takes for a filter like any other. A second equality on
`tenant` it would take for an independent one, expect hardly a row, and plan for that.

It is a net below the queries, no jail: whoever can run any SQL can also set the tenant.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import structlog

from app.errors import StoreUnavailable
from app.store.server.connections import SESSION, borrowed, connect, open_pool
from app.store.server.poolers import address_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    import asyncpg

    from app.store.server.connections import Connection, Pool

    Isolation = Literal["repeatable_read"]
    Reader: TypeAlias = "Connection | OneTenant"

SERVICE_ROLE: Final = "turngate_service"
SNAPSHOT: Final = "ISOLATION LEVEL REPEATABLE READ READ ONLY"
EVERY_TENANT: Final = {"turngate.every_tenant": "on"}

# What a transaction of the narrow path begins with, where its connection has not said it.
WIDEN: Final = "SELECT set_config('turngate.every_tenant', 'on', true)"
# In hexadecimal a name needs no quoting, whatever is in it.
_ONE: Final = (
    "SELECT set_config('turngate.tenant', convert_from(decode('{}', 'hex'), 'UTF8'), true)"
)
_READ: Final = """
SELECT found.* FROM ({}) AS found WHERE (SELECT set_config('turngate.tenant', ${}, true)) <> ''"""

_STANDING: Final = """
SELECT u.rolsuper OR u.rolbypassrls AS is_above, quote_ident(u.rolname) AS login,
    c.relowner = u.oid AS is_owner, c.oid IS NOT NULL AS is_migrated,
    coalesce(pg_has_role(u.oid, s.oid, 'MEMBER'), false) AS may_serve
FROM pg_roles u LEFT JOIN pg_roles s ON s.rolname = $1
    LEFT JOIN pg_class c ON c.oid = to_regclass('conversations')
WHERE u.rolname = current_user"""

log = structlog.get_logger(__name__)


async def service_role(dsn: str) -> Mapping[str, str]:
    """The settings with which connections to `dsn` are bound by RLS.

    Raises StoreUnavailable where they cannot be, with what is to be done.
    """
    connection = await connect(dsn, settings={})
    try:
        standing = await connection.fetchrow(_STANDING, SERVICE_ROLE)
    finally:
        await connection.close()
    assert standing is not None  # noqa: S101 - who is connected has a role
    if standing["may_serve"] and not address_of(dsn).is_pooled:
        return {"role": SERVICE_ROLE}
    if not standing["is_migrated"]:
        raise StoreUnavailable("the database has not been migrated")
    if standing["is_above"]:
        raise StoreUnavailable(
            f"row-level security does not bind {standing['login']}: connect as a member of "
            f"{SERVICE_ROLE} that is no superuser (docs/operations.md)"
        )
    if standing["is_owner"]:
        log.warning("store.owner_serves", login=standing["login"], missing=SERVICE_ROLE)
    return {}


@lru_cache(maxsize=512)
def _reading(query: str, parameters: int) -> str:
    return _READ.format(query, parameters + 1)


class OneTenant:
    """The rows of one tenant, named as it is stored, over a pool; each call is a transaction."""

    def __init__(self, pool: Pool, tenant: str) -> None:
        self._pool = pool
        self._tenant = tenant

    async def fetch(self, query: str, *arguments: Any) -> list[asyncpg.Record]:
        """The rows of a SELECT."""
        return await self._pool.fetch(_reading(query, len(arguments)), *arguments, self._tenant)

    async def fetchrow(self, query: str, *arguments: Any) -> asyncpg.Record | None:
        """The first row of a SELECT."""
        return await self._pool.fetchrow(_reading(query, len(arguments)), *arguments, self._tenant)

    async def fetchval(self, query: str, *arguments: Any) -> Any:
        """The first value of a SELECT."""
        row = await self.fetchrow(query, *arguments)
        return None if row is None else row[0]

    async def execute(self, statement: str, *arguments: Any) -> str:
        """A statement that writes."""
        async with self.transaction() as connection:
            return await connection.execute(statement, *arguments)

    @asynccontextmanager
    async def transaction(self, mode: str = "") -> AsyncIterator[Connection]:
        """A connection in a transaction of the tenant's. Raises StoreUnavailable."""
        begin = f"BEGIN {mode}; {_ONE.format(self._tenant.encode().hex())}"
        async with borrowed(self._pool) as connection, _begun(connection, begin):
            yield connection


class EveryTenant:
    """The narrow path: the rows of all tenants, for what belongs to none."""

    def __init__(self, pool: Pool, *, is_pooled: bool) -> None:
        self.pool = pool
        self._is_pooled = is_pooled

    @staticmethod
    async def open(dsn: str, *, largest: int, settings: Mapping[str, str] = SESSION) -> EveryTenant:
        """The path over connections of its own. Raises StoreUnavailable."""
        pool = await open_pool(dsn, largest=largest, settings={**settings, **EVERY_TENANT})
        return EveryTenant(pool, is_pooled=address_of(dsn).is_pooled)

    @asynccontextmanager
    async def borrowed(self) -> AsyncIterator[Connection]:
        """A connection for one block. Raises StoreUnavailable."""
        async with (
            borrowed(self.pool) as connection,
            every_tenant(connection, is_pooled=self._is_pooled),
        ):
            yield connection

    @asynccontextmanager
    async def transaction(
        self, *, isolation: Isolation | None = None, readonly: bool = False
    ) -> AsyncIterator[Connection]:
        """A connection in a transaction. Raises StoreUnavailable."""
        async with (
            borrowed(self.pool) as connection,
            connection.transaction(isolation=isolation, readonly=readonly),
        ):
            if self._is_pooled:
                await connection.execute(WIDEN)
            yield connection


@asynccontextmanager
async def every_tenant(
    connection: Connection, *, is_pooled: bool, as_one: bool = False
) -> AsyncIterator[None]:
    """A block on a connection of the narrow path; `as_one` makes it one transaction.

    Behind a pooler it always is one, for nothing of a connection outlasts that there.
    """
    if not is_pooled and not as_one:
        yield
        return
    async with connection.transaction():
        if is_pooled:
            await connection.execute(WIDEN)
        yield


@asynccontextmanager
async def _begun(connection: Connection, begin: str) -> AsyncIterator[None]:
    try:
        await connection.execute(begin)
        yield
    except BaseException:
        if not connection.is_closed():
            await connection.execute("ROLLBACK")
        raise
    await connection.execute("COMMIT")
