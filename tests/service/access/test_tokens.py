"""Access by verified tokens: what is remembered, what is fetched, and how often (service.md 2)."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import pytest

from app.service.access.development import DEVELOPMENT_ISSUER, DevelopmentIssuer, TokenOrder
from app.service.access.revocations import RevokedTokens
from app.service.access.tokens import (
    Access,
    Authenticated,
    FetchedKeys,
    FixedKeys,
    IssuerUnavailable,
    KeyRing,
)
from app.service.refusals import TokenRefused
from tests.support.stepped_clock import NOON, SteppedClock

if TYPE_CHECKING:
    from app.log.revocations import Revocation

ORDER = TokenOrder("acme", "alice", ("runs:read", "keys:write"), ("approver",))


def issuer(number: int = 1) -> DevelopmentIssuer:
    return DevelopmentIssuer.from_chance(bytes([number]) * 40)


def token_of(signer: DevelopmentIssuer, clock: SteppedClock, order: TokenOrder = ORDER) -> str:
    return signer.token(order, audience="turngate", clock=clock)


@dataclass
class Published:
    """A key set source that counts how often it is read; `issuers` None is an outage."""

    issuers: list[DevelopmentIssuer] | None
    reads: int = field(default=0)

    async def read(self) -> bytes:
        self.reads += 1
        if self.issuers is None:
            raise OSError("out of order")
        keys = [
            {**key.jwk(), "kid": kid}  # type: ignore[union-attr]  # these issuers have EC keys
            for one in self.issuers
            for kid, key in one.keys().items()
        ]
        return json.dumps({"keys": keys}).encode()


class NoRevocations:
    """Nothing was ever revoked."""

    async def news(self) -> list[Revocation]:
        return []


def none(clock: SteppedClock) -> RevokedTokens:
    return RevokedTokens(NoRevocations(), clock)


def access_to(source: Published, clock: SteppedClock, capacity: int = 100) -> Access:
    rings = {DEVELOPMENT_ISSUER: FetchedKeys(source.read, clock)}
    return Access(clock, issuers=rings, audience="turngate", revoked=none(clock), capacity=capacity)


def fixed(clock: SteppedClock, *, audience: str = "turngate") -> Access:
    rings = {DEVELOPMENT_ISSUER: FixedKeys(issuer().keys())}
    return Access(clock, issuers=rings, audience=audience, revoked=none(clock))


async def test_a_token_names_its_caller() -> None:
    clock = SteppedClock()
    found = await fixed(clock).authenticate(token_of(issuer(), clock))
    assert isinstance(found, Authenticated)
    assert (found.caller.tenant, found.caller.principal) == ("acme", "alice")
    assert found.caller.scopes == {"runs:read", "keys:write"}
    assert found.caller.roles == {"approver"}
    assert found.issued_at == NOON
    assert (found.expires_at - NOON).total_seconds() == 3600
    assert found.jti is not None


@dataclass(frozen=True)
class Case:
    id: str
    token: str


GARBAGE = [
    Case("empty", ""),
    Case("no parts", "alice"),
    Case("three parts of nothing", "x.y.z"),
    Case("a lone surrogate", "\ud800.a.b"),
    Case("five parts", "a.b.c.d.e"),
]


@pytest.mark.parametrize("case", GARBAGE, ids=lambda case: case.id)
async def test_garbage_is_refused_without_asking_the_issuer(case: Case) -> None:
    source = Published(None)
    with pytest.raises(TokenRefused):
        await access_to(source, SteppedClock()).authenticate(case.token)


async def test_a_token_for_another_audience_is_refused() -> None:
    clock = SteppedClock()
    with pytest.raises(TokenRefused):
        await fixed(clock, audience="other").authenticate(token_of(issuer(), clock))


async def test_a_remembered_token_ends_thirty_seconds_after_its_time() -> None:
    clock = SteppedClock()
    access = fixed(clock)
    token = token_of(issuer(), clock, replace(ORDER, ttl_s=10))
    await access.authenticate(token)
    clock.step(39)
    await access.authenticate(token)
    clock.step(1)
    with pytest.raises(TokenRefused):
        await access.authenticate(token)


async def test_a_remembered_token_is_the_same_caller_without_another_look() -> None:
    clock = SteppedClock()
    source = Published([issuer()])
    access = access_to(source, clock)
    token = token_of(issuer(), clock)
    first = await access.authenticate(token)
    source.issuers = None
    clock.step(59)
    assert await access.authenticate(token) is first


async def test_a_withdrawn_key_ends_its_tokens() -> None:
    clock = SteppedClock()
    source = Published([issuer()])
    access = access_to(source, clock)
    token = token_of(issuer(), clock)
    await access.authenticate(token)
    source.issuers = [issuer(2)]
    clock.step(601)
    with pytest.raises(TokenRefused):
        await access.authenticate(token)


async def test_only_so_many_tokens_are_remembered() -> None:
    clock = SteppedClock()
    access = access_to(Published([issuer()]), clock, capacity=2)
    tokens = [token_of(issuer(), clock) for _ in range(3)]
    firsts = [await access.authenticate(token) for token in tokens]
    assert await access.authenticate(tokens[2]) is firsts[2]
    assert await access.authenticate(tokens[0]) is not firsts[0]


async def test_an_unknown_kid_refetches_at_most_once_a_minute() -> None:
    clock = SteppedClock()
    source = Published([issuer()])
    access = access_to(source, clock)
    await access.authenticate(token_of(issuer(), clock))
    assert source.reads == 1
    source.issuers = [issuer(), issuer(2)]
    for _ in range(3):
        with pytest.raises(TokenRefused):
            await access.authenticate(token_of(issuer(2), clock))
    assert source.reads == 1
    clock.step(60)
    await access.authenticate(token_of(issuer(2), clock))
    assert source.reads == 2
    for _ in range(3):
        with pytest.raises(TokenRefused):
            await access.authenticate(token_of(issuer(3), clock))
    assert source.reads == 2


async def test_old_keys_are_read_anew_and_survive_an_outage() -> None:
    clock = SteppedClock()
    source = Published([issuer()])
    access = access_to(source, clock)
    await access.authenticate(token_of(issuer(), clock))
    source.issuers = None
    clock.step(600)
    await access.authenticate(token_of(issuer(), clock))
    assert source.reads == 2


async def test_an_issuer_that_was_never_reached_is_no_fault_of_the_token() -> None:
    clock = SteppedClock()
    with pytest.raises(IssuerUnavailable):
        await access_to(Published(None), clock).authenticate(token_of(issuer(), clock))


async def test_an_unreadable_key_set_is_as_good_as_none() -> None:
    async def broken() -> bytes:
        return b"<html>"

    clock = SteppedClock()
    rings = {DEVELOPMENT_ISSUER: FetchedKeys(broken, clock)}
    access = Access(clock, issuers=rings, audience="turngate", revoked=none(clock))
    with pytest.raises(IssuerUnavailable):
        await access.authenticate(token_of(issuer(), clock))


async def test_an_issuer_that_is_down_does_not_stop_another() -> None:
    clock = SteppedClock()
    rings: dict[str, KeyRing] = {
        "https://issuer.example": FetchedKeys(Published(None).read, clock),
        DEVELOPMENT_ISSUER: FixedKeys(issuer().keys()),
    }
    access = Access(clock, issuers=rings, audience="turngate", revoked=none(clock))
    assert (await access.authenticate(token_of(issuer(), clock))).caller.principal == "alice"


async def test_a_token_of_one_issuer_does_not_pass_as_anothers() -> None:
    clock = SteppedClock()
    rings: dict[str, KeyRing] = {"https://issuer.example": FixedKeys(issuer().keys())}
    access = Access(clock, issuers=rings, audience="turngate", revoked=none(clock))
    with pytest.raises(TokenRefused):
        await access.authenticate(token_of(issuer(), clock))
