"""Row-level security, tried with raw SQL in the service's own role."""

from __future__ import annotations

import asyncio
from itertools import count
from typing import TYPE_CHECKING
from urllib.parse import urlsplit, urlunsplit

import asyncpg
import pytest
import structlog

from app.errors import StoreUnavailable
from app.log.queries import Page, Reach
from app.store.database import StoreDatabase
from app.store.dispatch.own_wakes import OwnWakes
from app.store.log.tails import Tails
from app.store.open import Store
from app.store.schema.migrations import migrate
from app.store.server.connections import SESSION, open_pool
from app.store.server.row_security import OneTenant, service_role
from tests.support.database.postgres import NOON, Talk, as_owner
from tests.support.log.seals import SEAL

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from app.store.server.connections import Pool

pytestmark = pytest.mark.postgres

_numbers = count(1)
WITH_A_TENANT = """
SELECT c.relname AS name, c.relrowsecurity AND c.relforcerowsecurity AS is_secured
FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p')
    AND NOT a.attisdropped AND (a.attname = 'tenant' OR c.relname = 'tenants' AND a.attname = 'id')
ORDER BY 1"""

COUNT = "SELECT count(*) FROM TABLE"


async def tables(store: Store) -> list[str]:
    return [row["name"] for row in await store.pool.fetch(WITH_A_TENANT)]


async def test_every_table_with_a_tenant_is_secured_against_its_owner_too(store: Store) -> None:
    found = await store.pool.fetch(WITH_A_TENANT)
    names = {row["name"] for row in found}
    assert {"conversations", "events", "runs", "approvals", "nonces", "tenants"} <= names
    assert [row["name"] for row in found if not row["is_secured"]] == []


async def test_a_policy_reads_the_tenant_once_a_statement(store: Store) -> None:
    """Once a row, it took longer than the comparison of two vectors."""
    policies = (
        "SELECT pg_get_expr(polqual, polrelid) FROM pg_policy WHERE polname = 'of_its_tenant'"
    )
    found = [row[0] for row in await store.pool.fetch(policies)]
    assert len(found) > 10
    assert {each.count("( SELECT current_setting(") for each in found} == {2}


async def test_the_service_is_no_superuser_and_owns_nothing(store: Store) -> None:
    for pool in (store.pool, store.everyone.pool):
        assert await pool.fetchval("SELECT current_user") == "turngate_service"
    role = await store.pool.fetchrow("SELECT * FROM pg_roles WHERE rolname = 'turngate_service'")
    assert role is not None
    forbidden = ("rolsuper", "rolbypassrls", "rolcreaterole", "rolcreatedb", "rolcanlogin")
    assert not any(role[right] for right in forbidden)
    owned = "SELECT count(*) FROM pg_class WHERE relowner = 'turngate_service'::regrole"
    assert await store.pool.fetchval(owned) == 0


async def test_who_forgets_the_tenant_sees_and_changes_nothing(store: Store, tenant: str) -> None:
    talk = await Talk(store, tenant).open()
    await talk.ask()
    for table in await tables(store):
        assert await store.pool.fetchval(COUNT.replace("TABLE", table)) == 0
    changed = await store.pool.execute("UPDATE runs SET status = 'completed'")
    deleted = await store.pool.execute("DELETE FROM runs")
    assert (changed, deleted) == ("UPDATE 0", "DELETE 0")
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await store.pool.execute("INSERT INTO tenants VALUES ($1, now())", f"{tenant}-new")


async def test_another_tenant_sees_and_changes_nothing_of_it(store: Store, tenant: str) -> None:
    talk = await Talk(store, tenant).open()
    await talk.ask()
    async with OneTenant(store.pool, f"{tenant}-other").transaction() as connection:
        for table in set(await tables(store)) - {"tenants"}:
            seen = COUNT.replace("TABLE", table)
            assert await connection.fetchval(seen) == 0
        assert await connection.execute("UPDATE runs SET status = 'failed'") == "UPDATE 0"
        assert await connection.execute("DELETE FROM conversations") == "DELETE 0"
    async with OneTenant(store.pool, tenant).transaction() as connection:
        assert await connection.fetchval("SELECT count(*) FROM runs") == 1


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO principals (tenant, id, created_at) VALUES ($1, 'mallory', now())",
        "INSERT INTO nonces (tenant, nonce, payload_sha256) VALUES ($1, 'n', 'x')",
        "UPDATE conversations SET tenant = $1",
    ],
)
async def test_nothing_is_written_for_another_tenant(
    store: Store, tenant: str, statement: str
) -> None:
    await Talk(store, f"{tenant}-other").open()
    with pytest.raises(asyncpg.InsufficientPrivilegeError, match="row-level security"):
        async with OneTenant(store.pool, f"{tenant}-other").transaction() as connection:
            await connection.execute(statement, tenant)


@pytest.mark.parametrize("name", ["o'brien", "a\\'b", '"; DROP TABLE runs; --', "ünï-ço∂é", "*"])
async def test_a_tenant_of_any_name_sees_its_own(store: Store, tenant: str, name: str) -> None:
    talk = await Talk(store, f"{tenant}{name}").open()
    reach = Reach("alice", frozenset())
    async with store.database.session(talk.tenant) as session:
        (found,) = await session.conversations(reach, Page(10, None))
    assert (found.id, found.tenant) == (talk.id, talk.tenant)


@pytest.fixture
async def narrow(dsn: str) -> AsyncIterator[Pool]:
    """A single connection, which all share."""
    settings = {**SESSION, **await service_role(dsn)}
    async with await open_pool(dsn, largest=1, settings=settings) as pool:
        yield pool


def database(pool: Pool) -> StoreDatabase:
    return StoreDatabase(pool, Tails(), seal=SEAL, own_wakes=OwnWakes(), committed=lambda *_: None)


async def test_a_tenant_does_not_outlast_its_statement_or_its_transaction(
    store: Store, narrow: Pool, tenant: str
) -> None:
    talk = await Talk(store, tenant).open()
    async with database(narrow).session(tenant) as session:
        assert await session.conversation(talk.id) is not None
    assert await narrow.fetch("SELECT FROM conversations") == []
    with pytest.raises(RuntimeError, match="must be locked"):
        async with database(narrow).transaction(tenant) as tx:
            await tx.append(talk.id, [], now=NOON)
    assert await narrow.fetch("SELECT FROM conversations") == []


async def test_a_tenant_costs_no_round_trip(store: Store, narrow: Pool, tenant: str) -> None:
    talk = await Talk(store, tenant).open()
    queries: list[str] = []

    def noted(query: object) -> None:
        queries.append(query.query)  # type: ignore[attr-defined]  # the driver's LoggedQuery

    async with narrow.acquire() as connection:
        connection.add_query_logger(noted)
    async with database(narrow).session(tenant) as session:
        assert await session.conversation(talk.id) is not None
    assert len(queries) == 1
    async with database(narrow).transaction(tenant) as tx:
        assert await tx.conversation(talk.id) is not None
    assert len(queries) == 4
    assert queries[1].startswith("BEGIN")
    assert queries[3] == "COMMIT"


async def test_tenants_that_share_connections_never_meet(store: Store, tenant: str) -> None:
    talks = [await Talk(store, f"{tenant}-{n}").open() for n in range(8)]

    async def seen(talk: Talk) -> set[str]:
        rows = OneTenant(store.pool, talk.tenant)
        return {row["id"] for row in await rows.fetch("SELECT id FROM conversations")}

    for _ in range(5):
        assert await asyncio.gather(*map(seen, talks)) == [{talk.id} for talk in talks]


@pytest.fixture
async def other(dsn: str, store: Store) -> str:
    """The address of a new database of a new role that may only log in."""
    login = f"plain_{next(_numbers)}"
    async with as_owner(store) as owner:
        await owner.execute(f"CREATE ROLE {login} LOGIN")
        await owner.execute(f"CREATE DATABASE {login} OWNER {login}")
    parts = urlsplit(dsn)
    return urlunsplit(parts._replace(netloc=f"{login}@", path=f"/{login}"))


async def test_a_plain_owner_is_bound_as_well_and_told_of_the_role(other: str) -> None:
    await migrate(other)
    with structlog.testing.capture_logs() as notices:
        assert await service_role(other) == {}
    assert [(one["event"], one["missing"]) for one in notices] == [
        ("store.owner_serves", "turngate_service")
    ]
    async with Store.open(other, seal=SEAL, process="plain") as store:
        talk = await Talk(store, "acme").open()
        await talk.ask()
        lease = await talk.claim()
        await talk.finish(lease)
        assert await store.pool.fetch("SELECT FROM runs") == []
        async with OneTenant(store.pool, "else").transaction() as connection:
            assert await connection.fetch("SELECT FROM runs") == []
        async with store.database.session("acme") as session:
            assert await session.conversation(talk.id) is not None


async def test_a_role_that_is_let_in_later_gets_its_rights(other: str, store: Store) -> None:
    await migrate(other)
    connection = await asyncpg.connect(other)
    await connection.execute("REVOKE ALL ON ALL TABLES IN SCHEMA public FROM turngate_service")
    assert await migrate(other)
    assert not await migrate(other)
    may = "SELECT has_table_privilege('turngate_service', $1, $2)"
    assert await connection.fetchval(may, "runs", "UPDATE")
    assert await connection.fetchval(may, "events", "INSERT")
    assert not await connection.fetchval(may, "events", "UPDATE")
    assert not await connection.fetchval(may, "events", "DELETE")
    await connection.close()


async def test_a_login_above_row_security_that_cannot_take_the_role_is_refused(
    other: str, dsn: str, store: Store
) -> None:
    login = urlsplit(other).username
    async with as_owner(store) as owner:
        await owner.execute(f"ALTER ROLE {login} BYPASSRLS")
    with pytest.raises(StoreUnavailable, match=f"does not bind {login}"):
        await service_role(urlunsplit(urlsplit(dsn)._replace(netloc=f"{login}@")))


async def test_a_member_of_the_role_serves_a_database_that_it_does_not_own(
    other: str, dsn: str, store: Store, tenant: str
) -> None:
    login = urlsplit(other).username
    async with as_owner(store) as owner:
        await owner.execute(f"GRANT turngate_service TO {login}")
    member = urlunsplit(urlsplit(dsn)._replace(netloc=f"{login}@"))
    async with Store.open(member, seal=SEAL, process="member") as served:
        talk = await Talk(served, tenant).open()
        await talk.ask()
        lease = await talk.claim()
        await talk.finish(lease)
        assert await served.pool.fetch("SELECT FROM runs") == []


async def test_a_database_that_was_never_migrated_is_not_served_by_a_superuser(
    dsn: str, store: Store
) -> None:
    name = f"bare_{next(_numbers)}"
    async with as_owner(store) as owner:
        await owner.execute(f"CREATE DATABASE {name}")
        await owner.execute(f"CREATE ROLE {name} LOGIN BYPASSRLS")
    bare = urlunsplit(urlsplit(dsn)._replace(netloc=f"{name}@", path=f"/{name}"))
    with pytest.raises(StoreUnavailable, match="has not been migrated"):
        await service_role(bare)
