"""The queue of a rolling summary and its health, rule by rule (run-context.md 5.2)."""

from __future__ import annotations

from itertools import product

import pytest

from app.policy.taint import Trust
from app.runctx.memory import Health, IllegalHealthTransition, SpilledRange
from app.runctx.rolling import Rolling

H, R, D, C = Health.HEALTHY, Health.RETRY, Health.DEGRADED, Health.RECOVERING


def spilled(state: Rolling, newest: int, backlog_max: int = 16) -> Rolling:
    return state.spilled(newest, recent_turns=4, backlog_max=backlog_max)


def test_c104_the_fifth_turn_is_the_first_to_spill() -> None:
    state = spilled(Rolling(), 4)
    assert state.pending == ()
    assert not state.folds_at_once
    state = spilled(state, 5)
    assert state.pending == (SpilledRange(1, 1),)
    assert state.folds_at_once
    # Two turns at once are one range, after the last one that waits.
    assert spilled(state, 7).pending == (SpilledRange(1, 1), SpilledRange(2, 3))


def test_what_was_folded_spills_no_more() -> None:
    state = spilled(spilled(Rolling(), 5).folded("one", Trust.TRUSTED_USER), 6)
    assert (state.folded_through, state.pending) == (1, (SpilledRange(2, 2),))


def test_c106_beyond_the_bound_the_oldest_is_dropped() -> None:
    state = Rolling()
    for newest in range(5, 21):
        state = spilled(state, newest)
    assert (len(state.pending), state.folded_through) == (16, 0)
    state = spilled(state, 21)
    assert (len(state.pending), state.folded_through) == (16, 1)
    assert state.pending[0] == SpilledRange(2, 2)


def test_c105_the_third_failure_in_a_row_degrades() -> None:
    state = Rolling(summary="so far", folded_through=2, pending=(SpilledRange(3, 3),))
    health = []
    for _ in range(3):
        state = state.failed()
        health.append(state.health)
    assert health == [R, R, D]
    assert state.pending == (SpilledRange(3, 3, attempts=3),)
    assert (state.summary, state.shown_summary, state.shown_through) == ("so far", "", 0)
    assert not state.folds_at_once
    assert state.looked_at().shown_summary == ""


def test_a_success_between_failures_starts_the_count_anew() -> None:
    state = Rolling(pending=(SpilledRange(1, 1), SpilledRange(2, 2))).failed().failed()
    state = state.folded("one", Trust.TRUSTED_USER)
    assert (state.health, state.failures) == (H, 0)
    assert state.failed().health is R


def test_recovering_ends_with_the_queue_or_with_a_failure() -> None:
    state = Rolling(health=D, pending=(SpilledRange(1, 1), SpilledRange(2, 2))).looked_at()
    assert state.health is C
    assert state.looked_at() == state
    assert state.failed().health is D
    state = state.folded("one", Trust.TRUSTED_USER)
    assert (state.health, state.shown_summary) == (C, "")
    state = state.folded("two", Trust.TRUSTED_USER)
    assert (state.health, state.shown_summary, state.folded_through) == (H, "two", 2)


def test_c114_a_summary_never_becomes_cleaner() -> None:
    state = Rolling(pending=(SpilledRange(1, 1), SpilledRange(2, 2)))
    state = state.folded("one", Trust.QUARANTINED_CONTENT).folded("two", Trust.TRUSTED_USER)
    assert state.summary_trust is Trust.QUARANTINED_CONTENT


@pytest.mark.parametrize(("before", "after"), list(product(Health, Health)))
def test_c108_health_changes_in_six_ways(before: Health, after: Health) -> None:
    allowed = {(H, R), (R, H), (R, D), (D, C), (C, H), (C, D)}
    if (before, after) in allowed:
        assert Rolling(health=before).moved(after).health is after
        return
    with pytest.raises(IllegalHealthTransition, match=before.value):
        Rolling(health=before).moved(after)


@pytest.mark.parametrize(
    ("place", "first", "second"),
    [
        (4, (4, 6), (7, 8)),
        (5, (4, 6), (7, 8)),
        (6, (4, 5), (6, 8)),
        (7, (4, 5), (6, 8)),
        (8, (4, 5), (6, 7)),
    ],
)
def test_a_late_turn_is_part_of_the_range_it_falls_into(
    place: int, first: tuple[int, int], second: tuple[int, int]
) -> None:
    state = Rolling(folded_through=3, pending=(SpilledRange(4, 5, 2), SpilledRange(6, 7)))
    moved = state.with_room_at(place)
    assert moved.pending == (SpilledRange(*first, 2), SpilledRange(*second))
    assert moved.folded_through == 3
