"""Migrates over asyncpg: in a thread of `app.store.schema.migrations`, or for the command."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.pool import NullPool

from alembic import context
from app.store.schema.tables import metadata
from app.store.server.connections import connect
from app.store.server.row_security import WIDEN

if TYPE_CHECKING:
    from sqlalchemy import Connection


# Only a database with pgvector has it, and SQLAlchemy knows no type for its column.
UNDESCRIBED = "memory_vectors"

_CAN_SECURE = "SELECT to_regproc('secure_tenant_tables') IS NOT NULL"


def run(connection: Connection) -> None:
    """All steps in one transaction: a migration happens as a whole or not at all."""
    context.configure(
        connection=connection,
        target_metadata=metadata(),
        compare_server_default=True,
        include_schemas=False,
        include_name=lambda name, kind, _: (kind, name) != ("table", UNDESCRIBED),
    )
    with context.begin_transaction():
        # A plain owner is bound by row-level security as well, and migrates what is everybody's.
        connection.exec_driver_sql(WIDEN)
        context.run_migrations()
        if connection.exec_driver_sql(_CAN_SECURE).scalar():
            connection.exec_driver_sql("SELECT secure_tenant_tables()")


async def connect_and_run(dsn: str) -> None:
    """Connected as everywhere else; no statement has a name, for a pooler would mix them up."""
    engine = create_async_engine(
        "postgresql+asyncpg://",
        async_creator=lambda: connect(dsn, settings={}),
        poolclass=NullPool,
        connect_args={
            "prepared_statement_name_func": lambda: "",
            "prepared_statement_cache_size": 0,
        },
    )
    async with engine.connect() as connection:
        await connection.run_sync(run)
        await connection.commit()
    await engine.dispose()


address = context.config.attributes.get("dsn") or context.get_x_argument(as_dictionary=True)["dsn"]
asyncio.run(connect_and_run(address))
