"""Bringing a database to the schema of this release: our tables by Alembic, the queue by PgQueuer.

Safe from several replicas at once, and quick when there is nothing to do.
"""

from __future__ import annotations

import asyncio
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pgqueuer.adapters.drivers.asyncpg import AsyncpgDriver

from app.store.dispatch.wakes import SCHEMA, queries
from app.store.server.connections import connect

if TYPE_CHECKING:
    import asyncpg
    from alembic.config import Config

HEAD: Final = "0020"
SCRIPTS: Final = Path(__file__).parents[3] / "alembic"

# Held by a transaction, for behind a pooler nothing else lasts. Other replicas wait as long as it
# takes, and this one is idle while the tables are altered in a transaction of their own.
_FOR_EVER: Final = """
SELECT set_config('lock_timeout', '0', true),
    set_config('idle_in_transaction_session_timeout', '0', true)"""
_LOCK: Final = "SELECT pg_advisory_xact_lock(hashtextextended('turngate.migrate', 0))"
# Read from the catalogue: what to_regclass says may be what this session saw earlier in its
# transaction, before it waited for another replica.
_HAS_VERSIONS: Final = """
SELECT EXISTS (SELECT FROM pg_class
    WHERE relname = 'alembic_version' AND pg_table_is_visible(oid))"""
_VERSION: Final = "SELECT version_num FROM alembic_version"
_QUEUE_VERSION: Final = """
SELECT d.description FROM pg_namespace n JOIN pg_description d
    ON d.objoid = n.oid AND d.classoid = 'pg_namespace'::regclass AND d.objsubid = 0
WHERE n.nspname = $1"""
# The role may have been made by somebody else after the tables were.
_IS_SERVED: Final = """
SELECT coalesce(bool_and(has_table_privilege(oid, 'conversations', 'SELECT')), true)
FROM pg_roles WHERE rolname = 'turngate_service'"""


# Nobody reads the queue's log of jobs, and nothing would ever delete it.
_KEEP_NO_JOB_LOG: Final = """
CREATE OR REPLACE FUNCTION tgq.keep_no_log() RETURNS trigger LANGUAGE plpgsql
    AS 'BEGIN RETURN NULL; END';
CREATE OR REPLACE TRIGGER keep_no_log BEFORE INSERT ON tgq.pgqueuer_log
    FOR EACH ROW EXECUTE FUNCTION tgq.keep_no_log()"""

_SERVE_THE_QUEUE: Final = """
DO $$ BEGIN
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'turngate_service') THEN
        GRANT USAGE ON SCHEMA tgq TO turngate_service;
        GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA tgq TO turngate_service;
        GRANT USAGE ON ALL SEQUENCES IN SCHEMA tgq TO turngate_service;
    END IF;
END $$"""


async def migrate(dsn: str) -> bool:
    """Bring the database up to date; whether there was anything to do. Raises StoreUnavailable."""
    connection = await connect(dsn)
    try:
        if await _is_current(connection):
            return False
        async with connection.transaction():
            await connection.execute(_FOR_EVER)
            await connection.execute(_LOCK)
            if await _is_current(connection):
                return False
            # Alembic's command wants a loop of its own.
            await asyncio.to_thread(_upgrade_tables, dsn)
            await _upgrade_queue(connection)
    finally:
        await connection.close()
    return True


async def _is_current(connection: asyncpg.Connection[asyncpg.Record]) -> bool:
    """Whether tables and queue are those of this release, and its role may use them."""
    if not await connection.fetchval(_HAS_VERSIONS):
        return False
    tables = await connection.fetchval(_VERSION)
    queue = await connection.fetchval(_QUEUE_VERSION, SCHEMA)
    is_here = tables == HEAD and queue == _queue_version()
    return bool(is_here and await connection.fetchval(_IS_SERVED))


def _upgrade_tables(dsn: str) -> None:
    from alembic import command  # noqa: PLC0415 - nearly every start finds nothing to do

    command.upgrade(alembic_config(dsn), "head")


def alembic_config(dsn: str) -> Config:
    """Alembic's configuration for a database."""
    from alembic.config import Config  # noqa: PLC0415 - it takes a fifth of a start

    config = Config()
    config.set_main_option("script_location", str(SCRIPTS))
    config.set_main_option("path_separator", "os")
    config.attributes["dsn"] = dsn
    return config


async def _upgrade_queue(connection: asyncpg.Connection[asyncpg.Record]) -> None:
    queue = queries(AsyncpgDriver(connection))
    if await queue.schema_is_installed():
        await queue.upgrade()
    else:
        await queue.install()
    await connection.execute(_KEEP_NO_JOB_LOG)
    await connection.execute(_SERVE_THE_QUEUE)
    # A comment takes no parameter; the text is our own.
    await connection.execute(f"COMMENT ON SCHEMA {SCHEMA} IS '{_queue_version()}'")


def _queue_version() -> str:
    return f"pgqueuer {version('pgqueuer')}"
