"""A principal asks a minute's worth at once and goes on at that pace (service.md 1)."""

from __future__ import annotations

import pytest

from app.service.caller import Caller
from app.service.rates import RateLimited, Rates
from tests.support.stepped_clock import SteppedClock


def caller(principal: str = "alice", tenant: str = "acme") -> Caller:
    return Caller(tenant, principal, frozenset({"runs:read"}))


def refused(rates: Rates, who: Caller) -> int:
    """The seconds that the refusal names."""
    with pytest.raises(RateLimited) as limited:
        rates.count(who)
    return limited.value.retry_after_s


def test_a_minute_s_worth_is_taken_at_once_and_no_more() -> None:
    rates = Rates(SteppedClock(), per_minute=5)
    for _ in range(5):
        rates.count(caller())
    assert refused(rates, caller()) == 12


def test_what_was_refused_is_not_counted() -> None:
    clock = SteppedClock()
    rates = Rates(clock, per_minute=5)
    for _ in range(5):
        rates.count(caller())
    assert [refused(rates, caller()) for _ in range(20)] == [12] * 20
    clock.step(11.5)
    assert refused(rates, caller()) == 1
    clock.step(0.5)
    rates.count(caller())
    assert refused(rates, caller()) == 12


def test_nobody_pays_for_another_and_a_tenant_is_part_of_a_name() -> None:
    rates = Rates(SteppedClock(), per_minute=1)
    rates.count(caller())
    rates.count(caller("bob"))
    rates.count(caller(tenant="other"))
    assert refused(rates, caller()) == 60


def test_whoever_asks_at_the_pace_is_never_refused() -> None:
    clock = SteppedClock()
    rates = Rates(clock, per_minute=7)
    for _ in range(7):
        rates.count(caller())
    for _ in range(100):
        clock.step(60 / 7)
        rates.count(caller())


def test_those_who_asked_long_ago_are_forgotten() -> None:
    clock = SteppedClock()
    rates = Rates(clock, per_minute=60)
    for number in range(100):
        rates.count(caller(f"p{number}"))
    clock.step(61)
    rates.count(caller())
    assert len(rates._paid_at) == 1
