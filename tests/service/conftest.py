"""One house for each test that drives runs on the real store."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.house import House

if TYPE_CHECKING:
    from app.store.open import Store


@pytest.fixture
def house(store: Store, tenant: str) -> House:
    """A process of the service."""
    return House(store, tenant)
