"""Addresses of poolers: how they say so (F87; the rest is tried before a real one, in e2e)."""

from __future__ import annotations

import pytest

from app.errors import StoreUnavailable
from app.store.server.poolers import Address, address_of, check_address


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("postgresql://h/db", Address("postgresql://h/db", is_pooled=False)),
        ("postgresql://h/db?pgbouncer=true", Address("postgresql://h/db", is_pooled=True)),
        (
            "postgresql://h/db?host=/tmp&pgbouncer=true&port=6432",
            Address("postgresql://h/db?host=/tmp&port=6432", is_pooled=True),
        ),
        (
            "postgresql://h/db?sslmode=require",
            Address("postgresql://h/db?sslmode=require", is_pooled=False),
        ),
    ],
)
def test_an_address_says_whether_it_is_a_poolers(url: str, address: Address) -> None:
    assert address_of(url) == address


@pytest.mark.postgres
async def test_a_database_of_ones_own_is_no_pooler(dsn: str) -> None:
    await check_address(dsn)


async def test_a_database_that_is_not_there_is_told(tmp_path: object) -> None:
    with pytest.raises(StoreUnavailable, match="cannot be reached"):
        await check_address(f"postgresql:///db?host={tmp_path}")
