"""One house for each test that drives runs on the real store, each with a tenant of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import pytest_asyncio

from app.store.open import Store
from tests.support.log.seals import SEAL
from tests.support.service.house import House

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@pytest.fixture
def house(store: Store, tenant: str) -> House:
    """A process of the service."""
    return House(store, tenant)


@pytest_asyncio.fixture
async def other_house(house: House, dsn: str) -> AsyncIterator[House]:
    """Another process of the same service, with connections of its own."""
    async with Store.open(dsn, seal=SEAL, process="other-house") as opened:
        yield House(opened, house.tenant, clock=house.clock, worker="worker-2")
