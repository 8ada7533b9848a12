"""Databases from before revision 0020 have every artifact's bytes in its row, and go on so."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from alembic import command
from app.ids import Identity
from app.store.open import Store
from app.store.schema.migrations import alembic_config, migrate
from tests.store.artifacts.test_artifact_store import new
from tests.store.schema.test_migrations import empty
from tests.support.log.seals import SEAL

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from app.runctx.shapes import ArtifactRef
    from app.store.artifacts.artifact_store import StoreArtifacts

__all__ = ["empty"]

pytestmark = pytest.mark.postgres

SCOPE = Identity("acme", "alice", "conv_1")
LARGE = bytes(range(256)) * 12_000


def test_artifacts_of_both_releases_are_read_on_both_ways(empty: str) -> None:
    asyncio.run(migrate(empty))
    kept: ArtifactRef = asyncio.run(within(empty, keep))
    assert asyncio.run(within(empty, read)) == [LARGE, LARGE[2_000_000:2_000_009], True]
    command.downgrade(alembic_config(empty), "0019")
    command.upgrade(alembic_config(empty), "head")
    assert asyncio.run(within(empty, read)) == [LARGE, LARGE[2_000_000:2_000_009], False]
    assert kept.size_bytes == len(LARGE)


async def within(dsn: str, act: Callable[[StoreArtifacts], Awaitable[Any]]) -> Any:
    async with Store.open(dsn, seal=SEAL, process="either") as store:
        return await act(store.artifacts)


async def keep(artifacts: StoreArtifacts) -> ArtifactRef:
    ref, _ = await artifacts.put(SCOPE, new(SCOPE, content=LARGE))
    return ref


async def read(artifacts: StoreArtifacts) -> list[object]:
    """All bytes, some of them, and whether they lie in pieces."""
    (ref,) = await artifacts.list(SCOPE)
    part = [piece async for piece in artifacts.read(ref, range(2_000_000, 2_000_009))]
    layout = await artifacts.layout(SCOPE, ref.id)
    return [await artifacts.get(SCOPE, ref.id), b"".join(part), layout is not None]
