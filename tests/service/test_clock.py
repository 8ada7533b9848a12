"""The system's clock: time in UTC, ids that rise strictly, chance that differs."""

from __future__ import annotations

import re
from datetime import UTC, datetime

import pytest
from typing_extensions import override

from app.service.clock import SystemClock


class HeldClock(SystemClock):
    """The system's clock, held at one millisecond."""

    ms = 1_795_953_600_000

    @override
    def now_ms(self) -> int:
        return self.ms


def test_the_present_is_aware_and_in_utc() -> None:
    now = SystemClock().now()
    assert now.tzinfo is UTC
    assert now > datetime(2024, 1, 1, tzinfo=UTC)


def test_milliseconds_and_the_present_are_one_time() -> None:
    clock = SystemClock()
    assert abs(clock.now_ms() - clock.now().timestamp() * 1000) < 1000


def test_whole_seconds_are_those_that_have_passed() -> None:
    clock = HeldClock()
    clock.ms += 999
    assert clock.now_s() == 1_795_953_600


def test_jitter_lies_below_one() -> None:
    clock = SystemClock()
    assert all(0 <= clock.jitter() < 1 for _ in range(100))


@pytest.mark.parametrize("count", [10_000], ids=["beyond_the_twelve_bits"])
def test_ids_of_one_process_rise_even_within_a_millisecond(count: int) -> None:
    clock = HeldClock()
    ids = [clock.mint("run") for _ in range(count)]
    assert ids == sorted(ids)
    assert len(set(ids)) == count


def test_ids_rise_when_time_goes_on_and_when_it_goes_back() -> None:
    clock = HeldClock()
    first = clock.mint("run")
    clock.ms += 5
    second = clock.mint("run")
    clock.ms -= 100
    third = clock.mint("run")
    assert first < second < third


def test_a_minted_id_has_its_prefix_and_its_form() -> None:
    form = r"appr_[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"
    assert re.fullmatch(form, SystemClock().mint("appr"))


def test_two_nonces_differ_and_have_sixteen_bytes() -> None:
    clock = SystemClock()
    one, other = clock.nonce(), clock.nonce()
    assert len(one) == 16
    assert one != other


async def test_time_does_not_go_back_while_we_sleep() -> None:
    clock = SystemClock()
    before = clock.monotonic()
    await clock.sleep(0)
    assert clock.monotonic() >= before
