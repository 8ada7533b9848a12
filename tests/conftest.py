"""What all tests share: the profile of hypothesis, and one real Postgres for those that ask.

The database is made once by the migrations. Nothing is rolled back: each test has a tenant of its
own, which tries the tenant filters as well.
"""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from itertools import count
from typing import TYPE_CHECKING

import asyncpg
import pytest
import pytest_asyncio
from coverage import Coverage
from hypothesis import settings

from app.store.open import Store
from app.store.schema.migrations import migrate
from app.store.server.embedded import EmbeddedPostgres
from tests.support.database.external_postgres import postgres_15
from tests.support.log.seals import SEAL
from tests.support.loopback.buckets import MOTO, s3_server

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Generator, Iterator, Sequence
    from pathlib import Path

    from tests.support.loopback.buckets import S3

# The machine may be busy: how long an example takes says nothing.
settings.register_profile("turngate", max_examples=60, deadline=None)
# `pytest --hypothesis-profile=long tests/turn/test_machine.py` looks for longer.
settings.register_profile("long", max_examples=5000, deadline=None)
settings.load_profile("turngate")

_numbers = count(1)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Options of the tests."""
    parser.addoption("--fuzz-seconds", type=int, default=30, help="how long the API is fuzzed")
    parser.addoption(
        "--postgres",
        choices=("embedded", "15"),
        default="embedded",
        help="the server of the tests' database: the embedded one, or Debian's Postgres 15",
    )


def pytest_collection_modifyitems(config: pytest.Config, items: Sequence[pytest.Item]) -> None:
    """Skip what needs the `vector` extension where the server has none."""
    if config.getoption("--postgres") != "15":
        return
    for item in items:
        if item.get_closest_marker("vectors"):
            item.add_marker(pytest.mark.skip(reason="this Postgres 15 has no vector extension"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, bool, bool]:
    """Cover nothing while a test plays that is not measured: to be measured costs as much again."""
    measuring = Coverage.current() if item.get_closest_marker("unmeasured") else None
    if measuring is None:
        return (yield)
    measuring.stop()
    try:
        return (yield)
    finally:
        measuring.start()


@pytest.fixture(scope="session")
def dsn(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a migrated database, for as long as the tests run.

    Nobody crashes this server, so no commit waits for the disk; whoever crashes one has their own.
    """
    is_oldest = request.config.getoption("--postgres") == "15"
    place = tmp_path_factory.mktemp("postgres") / "data"
    with postgres_15() if is_oldest else embedded(place) as address:
        asyncio.run(migrate(address))
        asyncio.run(execute(address, "ALTER DATABASE turngate SET synchronous_commit = off"))
        yield address


@contextmanager
def embedded(data_dir: Path) -> Iterator[str]:
    """The embedded server, as users have it."""
    server = EmbeddedPostgres.start(data_dir)
    yield server.dsn
    server.stop()


async def execute(dsn: str, statement: str) -> None:
    """Run one statement on a connection of its own."""
    connection = await asyncpg.connect(dsn)
    await connection.execute(statement)
    await connection.close()


@pytest.fixture(scope="session")
def s3() -> Iterator[S3]:
    """An S3-compatible store, for as long as the tests run."""
    if not MOTO.exists():
        pytest.skip("`make tools` has not been run")
    with s3_server() as server:
        yield server


@pytest.fixture
def tenant() -> str:
    """A tenant that no other test has."""
    return f"tenant-{next(_numbers)}"


@pytest_asyncio.fixture(scope="module")
async def store(dsn: str, request: pytest.FixtureRequest) -> AsyncIterator[Store]:
    """The store of a file's tests.

    Opening one makes the database work more than most tests do: its connections have seen no
    statement yet.
    """
    async with Store.open(dsn, seal=SEAL, process=request.module.__name__) as opened:
        yield opened
