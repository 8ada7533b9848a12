"""The application on a real store, for the tests of the edge.

Opening a store takes far longer than a request, so the tests that ask for a world share one store,
on one event loop. Each has a tenant of its own, and starts at noon.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio

from app.store.open import Store
from tests.support.api.server import Served, served
from tests.support.api.world import ApiWorld, api_world
from tests.support.log.seals import SEAL

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from tests.support.loopback.buckets import S3

_tenants = count(1)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def shared_store(dsn: str) -> AsyncIterator[Store]:
    """A store for all of these tests."""
    async with Store.open(dsn, seal=SEAL, process="process-of-the-edge") as opened:
        yield opened


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def application(shared_store: Store) -> AsyncIterator[ApiWorld]:
    """The application, for all of these tests."""
    async with api_world(shared_store) as opened:
        yield opened


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def bucketed(dsn: str, s3: S3) -> AsyncIterator[ApiWorld]:
    """The application with the bytes of artifacts in a bucket, for all tests of it."""
    bucket = s3.bucket().bucket
    async with (
        Store.open(dsn, seal=SEAL, process="edge-with-a-bucket", bucket=bucket) as store,
        api_world(store) as opened,
    ):
        yield opened


@pytest.fixture
def world(application: ApiWorld) -> Iterator[ApiWorld]:
    """The application, for the people of a tenant of the test's own."""
    yield replace(application, tenant=f"api-{next(_tenants)}")
    application.clock.restart()


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def listening(shared_store: Store) -> AsyncIterator[Served]:
    """The application behind a real server, for all tests of streams."""
    async with served(shared_store, "nobody") as opened:
        yield opened


@pytest.fixture
def streaming(listening: Served, tenant: str) -> Served:
    """The listening application, for the people of a tenant of the test's own."""
    return replace(listening, tenant=tenant)
