"""Remembered grants in the store: which are live, who sees them, and that they are projections."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pytest

from app.log.envelope import NewEvent, wire_time
from app.log.grants import (
    GrantEnrolled,
    GrantResource,
    GrantRevoked,
    GrantSuspended,
    GrantUse,
)
from app.log.queries import Page
from app.log.records import PasskeyRecord
from app.policy.constraints import Constraint
from app.store.log.rebuild import rebuild
from app.trust.grant import Coverage, GrantConstraint
from tests.support.database.postgres import NOON, Talk, after, grant_replayed, new_id

if TYPE_CHECKING:
    from app.log.grants import GrantRecord
    from app.store.open import Store

pytestmark = pytest.mark.postgres

HOUR = 3600
WITHIN = GrantConstraint(pointer="/amount", op="range", value=[1, 99.5])


@dataclass
class Holder:
    """Somebody with a passkey, who holds grants."""

    store: Store
    tenant: str
    principal: str
    passkey: PasskeyRecord

    @staticmethod
    async def of(store: Store, tenant: str, principal: str = "alice") -> Holder:
        ident = new_id("passkey")
        passkey = PasskeyRecord(
            id=ident,
            tenant=tenant,
            principal=principal,
            thumbprint=ident,
            credential_id=b"c",
            public_key=b"k",
            rp_id="turngate.test",
            sign_count=0,
            label="phone",
            created_at=NOON,
            revoked_at=None,
        )
        async with store.database.transaction(tenant) as tx:
            assert await tx.put_passkey(passkey)
        return Holder(store, tenant, principal, passkey)

    async def enrol(self, agent: str = "courier", *, lasts_s: int = HOUR, **more: Any) -> str:
        resource = self.resource(agent, lasts_s=lasts_s, **more)
        enrolled = GrantEnrolled(resource=resource, by=self.principal, passkey_id=self.passkey.id)
        await self.audit(NewEvent(enrolled, private=b'{"signed":1}'))
        return resource.id

    def resource(self, agent: str, *, lasts_s: int = HOUR, **more: Any) -> GrantResource:
        members: dict[str, Any] = {
            "id": new_id("grant"),
            "principal": self.principal,
            "agent": agent,
            "tool": "http_post",
            "tool_definition_digest": "dd",
            "capabilities": ("arbitrary-egress", "mutate-external"),
            "constraints": (WITHIN,),
            "coverage_hash": "cc",
            "expires_at": wire_time(after(lasts_s)),
        }
        return GrantResource(**members | more)

    async def audit(self, event: NewEvent, *, at_s: int = 0) -> None:
        async with self.store.database.transaction(self.tenant) as tx:
            await tx.append_audit([event], now=after(at_s))

    async def revoke(self, grant_id: str, *, at_s: int = 0) -> None:
        resource = self.resource("courier", id=grant_id)
        revoked = GrantRevoked(resource=resource, by=self.principal, passkey_id=self.passkey.id)
        await self.audit(NewEvent(revoked, private=b"{}"), at_s=at_s)

    async def suspend(self, grant_id: str, *, at_s: int = 0) -> None:
        resource = self.resource("courier", id=grant_id)
        await self.audit(NewEvent(GrantSuspended(resource=resource, by="boss")), at_s=at_s)

    async def live(self, agent: str = "courier", *, at_s: int = 0) -> list[str]:
        async with self.store.database.session(self.tenant) as session:
            found = await session.live_grants(self.principal, agent, after(at_s))
        return [grant.id for grant in found]

    async def read(self, grant_id: str) -> GrantRecord:
        async with self.store.database.session(self.tenant) as session:
            found = await session.grant(grant_id)
        assert found is not None
        return found


async def test_a_grant_is_read_back_with_what_it_covers(store: Store, tenant: str) -> None:
    alice = await Holder.of(store, tenant)
    ident = await alice.enrol("cou\0rier")
    grant = await alice.read(ident)
    assert grant.coverage == Coverage(
        tenant=tenant,
        principal="alice",
        agent="cou\0rier",
        tool="http_post",
        tool_definition_digest="dd",
        capabilities=("arbitrary-egress", "mutate-external"),
        constraints=(Constraint("/amount", "range", [1, 99.5]),),
    )
    assert (grant.coverage_hash, grant.evidence) == ("cc", b'{"signed":1}')
    assert (grant.enrolled_at, grant.expires_at) == (NOON, after(HOUR))
    assert (grant.revoked_at, grant.suspended_at) == (None, None)
    assert grant.passkey == alice.passkey


async def test_live_are_those_of_that_principal_and_agent_newest_first(
    store: Store, tenant: str
) -> None:
    alice, bob = await Holder.of(store, tenant), await Holder.of(store, tenant, "bob")
    first, second = await alice.enrol(), await alice.enrol()
    await alice.enrol("clerk")
    await bob.enrol()
    assert await alice.live() == [second, first]
    async with store.database.session(f"{tenant} of others") as session:
        assert await session.live_grants("alice", "courier", NOON) == ()
        assert await session.grant(first) is None
        assert await session.grants("alice", Page(50, None)) == []


async def test_what_has_ended_is_not_live(store: Store, tenant: str) -> None:
    alice = await Holder.of(store, tenant)
    kept, revoked, suspended, short = [await alice.enrol() for _ in range(3)] + [
        await alice.enrol(lasts_s=60)
    ]
    await alice.revoke(revoked, at_s=5)
    await alice.suspend(suspended, at_s=6)
    assert await alice.live(at_s=59) == [short, kept]
    assert await alice.live(at_s=60) == [kept]
    found = [await alice.read(each) for each in (kept, revoked, suspended, short)]
    states = [grant.state(after(60)) for grant in found]
    assert states == ["active", "revoked", "suspended", "expired"]
    assert [(grant.revoked_at, grant.suspended_at) for grant in found] == [
        (None, None),
        (after(5), None),
        (None, after(6)),
        (None, None),
    ]


async def test_the_first_end_stays_and_a_revocation_counts_most(store: Store, tenant: str) -> None:
    alice = await Holder.of(store, tenant)
    ident = await alice.enrol()
    await alice.suspend(ident, at_s=1)
    await alice.revoke(ident, at_s=2)
    await alice.suspend(ident, at_s=3)
    grant = await alice.read(ident)
    assert (grant.suspended_at, grant.revoked_at) == (after(1), after(2))
    assert grant.state(after(4)) == "revoked"


async def test_a_grant_goes_with_the_passkey_that_signed_it(store: Store, tenant: str) -> None:
    alice = await Holder.of(store, tenant)
    ident = await alice.enrol()
    async with store.database.transaction(tenant) as tx:
        await tx.revoke_passkey(alice.passkey.id, now=after(1))
    assert await alice.live() == []
    grant = await alice.read(ident)
    assert grant.passkey == replace(alice.passkey, revoked_at=after(1))
    assert grant.state(after(2)) == "revoked"


async def test_a_page_has_all_of_ones_own(store: Store, tenant: str) -> None:
    alice = await Holder.of(store, tenant)
    first, second, third = [await alice.enrol() for _ in range(3)]
    await alice.revoke(second)
    async with store.database.session(tenant) as session:
        newest = await session.grants("alice", Page(2, None))
        older = await session.grants("alice", Page(2, second))
    assert [grant.id for grant in newest] == [third, second]
    assert [grant.id for grant in older] == [first]


async def test_every_use_is_found_again(store: Store, tenant: str) -> None:
    alice = await Holder.of(store, tenant)
    ident = await alice.enrol()
    talk, other = await Talk(store, tenant).open(), await Talk(store, tenant).open()
    first, second = await talk.ask(), await other.ask()
    await talk.request(grant_replayed(first, ident, "call_0_0\0"), now=after(1))
    await other.request(grant_replayed(second, ident, "call_0_0"), now=after(2))
    await talk.request(grant_replayed(first, "grant_other", "call_1_0"), now=after(3))
    asked = [ident, "grant_unused", "grant_other"]
    async with store.database.session(tenant) as session:
        assert await session.grant_uses(asked, 10) == {
            ident: (
                GrantUse(other.id, 3, second, "call_0_0", after(2)),
                GrantUse(talk.id, 3, first, "call_0_0\0", after(1)),
            ),
            "grant_other": (GrantUse(talk.id, 4, first, "call_1_0", after(3)),),
        }
        newest = await session.grant_uses(asked, 1)
        assert [use.run_id for use in newest[ident]] == [second]
    async with store.database.session(f"{tenant} of others") as session:
        assert await session.grant_uses(asked, 10) == {}


async def test_grants_and_their_uses_equal_their_rebuild(
    store: Store, dsn: str, tenant: str
) -> None:
    alice = await Holder.of(store, tenant)
    one, two = await alice.enrol("a\0b"), await alice.enrol()
    await alice.revoke(one)
    await alice.suspend(two)
    talk = await Talk(store, tenant).open()
    await talk.request(grant_replayed(await talk.ask(), one))
    assert await rebuild(dsn, tenant=tenant) == []
    await store.everyone.pool.execute("UPDATE grants SET revoked_at = NULL WHERE id = $1", one)
    await store.everyone.pool.execute("DELETE FROM grant_uses WHERE grant_id = $1", one)
    found = await rebuild(dsn, tenant=tenant, repair=True)
    assert {each.table for each in found} == {"grants", "grant_uses"}
    assert await rebuild(dsn, tenant=tenant) == []
    assert (await alice.read(one)).revoked_at == NOON


async def test_an_enrolment_without_its_signed_bytes_is_no_grant(store: Store, tenant: str) -> None:
    alice = await Holder.of(store, tenant)
    enrolled = GrantEnrolled(
        resource=alice.resource("courier"), by="alice", passkey_id=alice.passkey.id
    )
    with pytest.raises(ValueError, match="no signed document"):
        await alice.audit(NewEvent(enrolled))
