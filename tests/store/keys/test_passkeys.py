"""The sign counter of a passkey: which use moves it on, and which shows a copy (WebAuthn 7.2)."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from app.log.records import PasskeyRecord
from tests.support.database.postgres import NOON, new_id

if TYPE_CHECKING:
    from app.store.open import Store

pytestmark = pytest.mark.postgres

LAST = 0xFFFFFFFF


async def registered(store: Store, tenant: str, count: int) -> str:
    """The id of a passkey that starts from `count`."""
    ident = new_id("passkey")
    passkey = PasskeyRecord(
        id=ident,
        tenant=tenant,
        principal="alice",
        thumbprint=ident,
        credential_id=b"c",
        public_key=b"k",
        rp_id="turngate.test",
        sign_count=count,
        label="phone",
        created_at=NOON,
        revoked_at=None,
    )
    async with store.database.transaction(tenant) as tx:
        assert await tx.put_passkey(passkey)
    return ident


async def used(store: Store, tenant: str, ident: str, count: int) -> bool:
    async with store.database.transaction(tenant) as tx:
        return await tx.count_passkey(ident, count)


async def stored(store: Store, tenant: str, ident: str) -> int:
    async with store.database.session(tenant) as session:
        passkey = await session.passkey(ident)
    assert passkey is not None
    return passkey.sign_count


@dataclass(frozen=True)
class Case:
    id: str
    stored: int
    sent: int
    taken: bool


CASES = [
    Case("no counter at all", 0, 0, True),
    Case("the first count", 0, 5, True),
    Case("the next count", 5, 6, True),
    Case("counts were passed over", 5, 900, True),
    Case("the last count there is", 5, LAST, True),
    Case("the same count", 5, 5, False),
    Case("a lower count", 5, 4, False),
    Case("it counted once, and sends none", 5, 0, False),
    Case("after the last count", LAST, LAST, False),
    Case("begun anew after the last count", LAST, 0, False),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
async def test_a_count_that_does_not_advance_is_a_copy(
    store: Store, tenant: str, case: Case
) -> None:
    ident = await registered(store, tenant, case.stored)
    assert await used(store, tenant, ident, case.sent) is case.taken
    assert await stored(store, tenant, ident) == (case.sent if case.taken else case.stored)


async def test_one_without_a_counter_is_used_as_often_as_one_likes(
    store: Store, tenant: str
) -> None:
    ident = await registered(store, tenant, 0)
    assert [await used(store, tenant, ident, 0) for _ in range(3)] == [True, True, True]


async def test_one_that_has_begun_to_count_goes_on_counting(store: Store, tenant: str) -> None:
    ident = await registered(store, tenant, 0)
    taken = [await used(store, tenant, ident, count) for count in (0, 5, 0, 5, 6)]
    assert taken == [True, True, False, False, True]


async def test_of_two_uses_at_once_with_one_count_one_is_taken(store: Store, tenant: str) -> None:
    ident = await registered(store, tenant, 5)
    taken = await asyncio.gather(*(used(store, tenant, ident, 6) for _ in range(2)))
    assert sorted(taken) == [False, True]


async def test_no_other_tenant_moves_a_counter(store: Store, tenant: str) -> None:
    ident = await registered(store, tenant, 5)
    assert not await used(store, f"{tenant} of others", ident, 6)
    assert await stored(store, tenant, ident) == 5
