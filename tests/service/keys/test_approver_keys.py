"""Approver keys as a use case: what time does to statements, and endorsement among many keys."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from app.log.records import KeyRecord
from app.service.caller import Caller
from app.service.keys.approver_keys import KeyRequest, Keys
from app.service.keys.endorsement import Endorsement
from app.service.refusals import KeyInvalid, ScopeMissing
from tests.support.stepped_clock import NOON, SteppedClock
from tests.trust.signer import Signer, compact

if TYPE_CHECKING:
    from app.store.open import Store


def statement(caller: Caller, signer: Signer, kind: str, kid: str, by: Signer) -> str:
    """A statement of noon, good for five minutes."""
    now = int(NOON.timestamp())
    fields = {
        "typ": f"turngate.{kind}",
        "tenant": caller.tenant,
        "sub": caller.principal,
        "thumbprint": signer.public.thumbprint(),
        "iat": now,
        "exp": now + 300,
    }
    return by.jws({"alg": "ES256", "kid": kid, "typ": f"turngate-{kind}+jws"}, compact(fields))


def proven(caller: Caller, signer: Signer) -> KeyRequest:
    kid = signer.public.thumbprint()
    return KeyRequest(signer.jwk, "laptop", statement(caller, signer, "key-proof", kid, signer))


def alice(tenant: str) -> Caller:
    return Caller(tenant, "alice", frozenset({"keys:write"}))


@dataclass(frozen=True)
class Case:
    id: str
    seconds: float
    holds: bool


TIMES = [
    Case("a minute before", -60, True),
    Case("more than a minute before", -61, False),
    Case("at its end", 300, True),
    Case("after its end", 301, False),
]


@pytest.mark.parametrize("case", TIMES, ids=lambda case: case.id)
async def test_a_proof_holds_for_its_time(store: Store, tenant: str, case: Case) -> None:
    clock, caller = SteppedClock(), alice(tenant)
    request = proven(caller, Signer.of(3_000_000 + int(case.seconds)))
    clock.step(case.seconds)
    async with store.database.transaction(tenant) as tx:
        if case.holds:
            assert (await Keys(clock).register(tx, caller, request)).principal == "alice"
        else:
            with pytest.raises(KeyInvalid):
                await Keys(clock).register(tx, caller, request)


async def test_any_active_key_endorses_however_many_there_are(store: Store, tenant: str) -> None:
    caller, oldest, new = alice(tenant), Signer.of(4_000_000), Signer.of(4_000_001)
    async with store.database.transaction(tenant) as tx:
        for number in range(201):
            signer = oldest if number == 0 else Signer.of(4_100_000 + number)
            key = KeyRecord(
                id=f"key_{number:04d}",
                tenant=tenant,
                principal="alice",
                thumbprint=signer.public.thumbprint(),
                public_jwk=signer.jwk,
                label="old",
                created_at=NOON,
                revoked_at=None,
            )
            assert await tx.put_key(key)
        bare = proven(caller, new)
        word = statement(caller, new, "key-endorsement", "key_0000", oldest)
        request = KeyRequest(bare.public_jwk, bare.label, bare.proof_jws, Endorsement(word))
        added = await Keys(SteppedClock()).register(tx, caller, request)
    assert added.thumbprint == new.public.thumbprint()


async def test_only_an_administrator_resets(store: Store, tenant: str) -> None:
    async with store.database.transaction(tenant) as tx:
        with pytest.raises(ScopeMissing):
            await Keys(SteppedClock()).reset(tx, alice(tenant), "alice")
