"""A principal asks a minute's worth at once and goes on at that pace (service.md 1)."""

from __future__ import annotations

import pytest

from app.service.access.rates import RateLimited, Rates
from app.service.caller import Caller
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


def test_no_more_principals_are_remembered_than_the_bound_and_the_idlest_goes() -> None:
    clock = SteppedClock()
    rates = Rates(clock, per_minute=1, principals=3)
    for name in ("a", "b", "c"):
        clock.step(1)
        rates.count(caller(name))
    clock.step(1)
    rates.count(caller("d"))
    assert len(rates._paid_at) == 3
    # The first one is unknown again; those who asked since still owe.
    assert [refused(rates, caller(name)) for name in ("b", "c", "d")] == [58, 59, 60]
    rates.count(caller("a"))
    assert len(rates._paid_at) == 3


def test_whoever_asks_again_is_not_the_idlest() -> None:
    rates = Rates(SteppedClock(), per_minute=2, principals=2)
    for name in ("a", "b", "a", "c"):
        rates.count(caller(name))
    assert refused(rates, caller("a")) == 30
    rates.count(caller("b"))


def test_a_flood_of_names_takes_no_more_memory_than_the_bound() -> None:
    rates = Rates(SteppedClock(), per_minute=1, principals=100)
    for number in range(10_000):
        rates.count(caller(f"p{number}"))
    assert len(rates._paid_at) == 100
