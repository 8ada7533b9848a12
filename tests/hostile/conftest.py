"""One application with something of every kind in it, for all of these tests; and one on a port."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest_asyncio

from app.store.open import Store
from tests.hostile.target import Target
from tests.support.api.server import Served, served
from tests.support.api.world import api_world
from tests.support.log.seals import SEAL

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def target(dsn: str) -> AsyncIterator[Target]:
    """What is attacked."""
    async with (
        Store.open(dsn, seal=SEAL, process="process-under-attack") as store,
        api_world(store) as world,
    ):
        yield await Target.furnished(replace(world, tenant="under-attack"))


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def port(dsn: str) -> AsyncIterator[Served]:
    """What is attacked below HTTP: uvicorn as the command starts it."""
    async with (
        Store.open(dsn, seal=SEAL, process="port-under-attack") as store,
        served(store, "port-under-attack") as opened,
    ):
        yield opened
