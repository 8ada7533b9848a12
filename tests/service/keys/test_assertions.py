"""What a real browser signed once, presented again: the counter tells, and only a sound one counts.

The assertions are the recorded ones of the corpus: their counts are 2, and 7 for the later one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from app.log.records import PasskeyRecord
from app.service.keys.assertions import own_passkey
from app.trust.refusal import Refused
from tests.support.database.postgres import NOON, new_id
from tests.trust.test_passkey_corpus import ANOTHER_TEXT, CORPUS, ORIGINS, passkey, proof

if TYPE_CHECKING:
    from app.store.open import Store
    from app.trust.passkey import PasskeyProof

pytestmark = pytest.mark.postgres

FIRST, LATER = proof(CORPUS["sound"]["ES256"]), proof(CORPUS["again"])
FOR_ANOTHER = proof(CORPUS["sound"]["ES256"], ANOTHER_TEXT)
A_COPY = Refused("the passkey's counter does not advance: it may be a copy")


async def registered(store: Store, tenant: str) -> str:
    """The id of a passkey of alice whose counter stands at one."""
    made = passkey("ES256")
    record = PasskeyRecord(
        id=new_id("passkey"),
        tenant=tenant,
        principal="alice",
        thumbprint=made.thumbprint,
        credential_id=made.credential_id,
        public_key=made.public_key,
        rp_id=made.rp_id,
        sign_count=1,
        label="browser",
        created_at=NOON,
        revoked_at=None,
    )
    async with store.database.transaction(tenant) as tx:
        assert await tx.put_passkey(record)
    return record.id


async def presented(store: Store, tenant: str, said: PasskeyProof) -> str | Refused:
    """The id of the passkey that is believed, or why it is not."""
    async with store.database.transaction(tenant) as tx:
        found = await own_passkey(tx, said, "alice", origins=ORIGINS)
    return found if isinstance(found, Refused) else found.id


async def test_f128_one_presented_again_is_refused_by_its_count(store: Store, tenant: str) -> None:
    ident = await registered(store, tenant)
    assert await presented(store, tenant, FIRST) == ident
    assert await presented(store, tenant, FIRST) == A_COPY
    assert await presented(store, tenant, LATER) == ident


async def test_f128_one_held_back_is_refused_once_a_later_one_came(
    store: Store, tenant: str
) -> None:
    ident = await registered(store, tenant)
    assert await presented(store, tenant, LATER) == ident
    assert await presented(store, tenant, FIRST) == A_COPY


async def test_f128_one_replayed_for_another_text_is_refused_and_spends_no_count(
    store: Store, tenant: str
) -> None:
    ident = await registered(store, tenant)
    assert await presented(store, tenant, FOR_ANOTHER) == Refused("the assertion does not hold")
    assert await presented(store, tenant, FIRST) == ident
