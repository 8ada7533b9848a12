"""One house for each test that drives runs on the real store.

Opening a store makes the database work more than most tests do: its connections have seen no
statement yet. So the tests of a file share one, on one event loop, each with a tenant of its own.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio

from app.store.open import Store
from tests.support.house import House
from tests.support.seals import SEAL

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: Sequence[pytest.Item]) -> None:
    """Run the tests of a file on one loop, unless they ask for another."""
    for item in items:
        marked = item.get_closest_marker("asyncio")
        if (
            item.path.is_relative_to(HERE)
            and pytest_asyncio.is_async_test(item)
            and "loop_scope" not in (marked.kwargs if marked else {})
        ):
            item.add_marker(pytest.mark.asyncio(loop_scope="module"), append=False)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def store(dsn: str, request: pytest.FixtureRequest) -> AsyncIterator[Store]:
    """The store of a file's tests."""
    async with Store.open(dsn, seal=SEAL, process=request.module.__name__) as opened:
        yield opened


@pytest.fixture
def house(store: Store, tenant: str) -> House:
    """A process of the service."""
    return House(store, tenant)


@pytest_asyncio.fixture(loop_scope="module")
async def other_house(house: House, dsn: str) -> AsyncIterator[House]:
    """Another process of the same service, with connections of its own."""
    async with Store.open(dsn, seal=SEAL, process="other-house") as opened:
        yield House(opened, house.tenant, clock=house.clock, worker="worker-2")
