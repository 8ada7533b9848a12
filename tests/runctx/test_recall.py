"""From hits to entries: floors, windows, duplicates, budget, labels (run-context.md 3.3, 11.A)."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from app.policy.taint import Trust
from app.runctx.memory import LLMContextPatch, MemoryFetch, RecallReport
from app.runctx.text import cap_text
from tests.runctx.remembered import RECALL, fetched, hit, recalled, turn
from tests.support.played.memory import OfferedMemory

MARK = "…[truncated]"
TAINTED = Trust.QUARANTINED_CONTENT


async def found(*hits: Any, **recall: Any) -> MemoryFetch:
    """What is fetched where nothing but these hits is remembered."""
    return await fetched(OfferedMemory(hits=hits), recall=replace(RECALL, **recall))


def users(fetch: MemoryFetch) -> list[str]:
    return [entry["user"] for entry in recalled(fetch)]


async def test_c6_a_long_text_is_capped() -> None:
    fetch = await found(hit("a" * 3200, "short"))
    [entry] = recalled(fetch)
    assert entry["user"] == "a" * 2048 + MARK
    assert len(entry["user"].encode()) == 2062
    assert fetch.report.truncated_texts == 1


async def test_c8_times_are_whole_seconds_in_utc() -> None:
    zone = timezone(timedelta(hours=2))
    at = datetime(2026, 11, 30, 12, 0, 0, 500_000, tzinfo=zone)
    timed, untimed = recalled(await found(hit("a", at=at), hit("b")))
    assert timed["timestamp"] == "2026-11-30T10:00:00Z"
    assert "timestamp" not in untimed


async def test_c16_a_score_at_the_floor_stays() -> None:
    fetch = await found(hit("at", score=0.5), hit("below", score=0.499), min_score=0.5)
    assert users(fetch) == ["at"]
    assert fetch.report.dropped_by_floor == 1


async def test_c18_when_all_is_filtered_there_is_no_tier() -> None:
    patch = LLMContextPatch(recent_turns=[turn("hi")])
    fetch = await fetched(OfferedMemory(patch, [hit("hi")]))
    assert fetch.blocks is not None
    assert fetch.blocks.external is None


def test_c19_exactly_2048_bytes_stay() -> None:
    assert cap_text("a" * 2048) == "a" * 2048
    assert cap_text("a" * 2049) == "a" * 2048 + MARK


def test_c20_a_cut_steps_back_to_a_code_point() -> None:
    cut = cap_text("a" * 2047 + "€" + "more")
    assert cut == "a" * 2047 + MARK
    assert len(cut.encode()) == 2061


def test_c21_683_characters_of_three_bytes_become_682() -> None:
    assert cap_text("€" * 683) == "€" * 682 + MARK


async def test_c22_equal_exchanges_are_one_entry_the_better_one() -> None:
    fetch = await found(
        hit("q", "a", 0.9, turn_id="1"),
        hit("q", "a", 0.8, turn_id="2"),
        hit("q", "other", 0.7, turn_id="3"),
    )
    assert [(entry["assistant"], entry["score"]) for entry in recalled(fetch)] == [
        ("a", 0.9),
        ("other", 0.7),
    ]
    assert fetch.report.dropped_by_duplicate == 1


async def test_c22_texts_that_differ_beyond_the_cap_are_two_entries() -> None:
    long = "a" * 3000
    fetch = await found(hit(long, turn_id="1"), hit(f"{long}!", turn_id="2"))
    assert len(recalled(fetch)) == 2


async def test_c25_an_empty_message_of_the_window_hides_its_own_turn_alone() -> None:
    patch = LLMContextPatch(recent_turns=[turn("", "shown", turn_id="w")])
    hits = [hit("", "shown", turn_id="w"), hit("", "other", turn_id="o")]
    fetch = await fetched(OfferedMemory(patch, hits))
    assert [entry["assistant"] for entry in recalled(fetch)] == ["other"]


async def test_c27_scores_that_are_no_number_are_dropped_and_counted() -> None:
    fetch = await found(
        hit("nan", score=float("nan")),
        hit("inf", score=float("inf")),
        hit("good", score=0.4),
        hit("low", score=0.1),
        min_score=0.2,
    )
    assert users(fetch) == ["good"]
    assert fetch.report.dropped_non_finite == 2
    assert fetch.report.top_score == 0.4


async def test_the_top_score_is_that_of_the_first_finite_hit_even_if_it_is_dropped() -> None:
    fetch = await found(hit(score=0.3), min_score=0.5)
    assert fetch.report.top_score == 0.3


async def test_c28_the_budget_bounds_the_sum() -> None:
    fetch = await found(*(hit(letter * 5000, letter * 5000) for letter in "abcde"))
    assert len(recalled(fetch)) == 3
    assert fetch.report.dropped_by_budget == 2
    assert fetch.report.truncated_texts == 6


async def test_c29_the_first_that_does_not_fit_ends_the_list() -> None:
    fetch = await found(hit("a", "a"), hit("b" * 2000, "b"), hit("c", "c"), budget_bytes=1024)
    assert users(fetch) == ["a"]
    assert fetch.report.dropped_by_budget == 2
    assert fetch.report.kept_bytes == len('{"assistant":"a","score":0.5,"user":"a"}')


async def test_c29_entries_fill_the_budget_to_the_byte() -> None:
    hits = [hit("a", "a"), hit("b", "b")]
    assert users(await found(*hits, budget_bytes=80)) == ["a", "b"]
    assert users(await found(*hits, budget_bytes=79)) == ["a"]


async def test_c30_a_budget_below_the_first_entry_leaves_none() -> None:
    fetch = await found(hit("a" * 2000), hit("b"), budget_bytes=1024)
    assert fetch.blocks is None
    assert (fetch.report.dropped_by_budget, fetch.report.kept_bytes) == (2, 0)


async def test_c31_a_tainted_turn_is_marked_and_taints() -> None:
    fetch = await found(hit("a", trust=TAINTED), hit("b"))
    assert [entry.get("trust") for entry in recalled(fetch)] == ["quarantined_content", None]
    assert fetch.blocks is not None
    assert fetch.blocks.trust is TAINTED
    clean = await found(hit("a"), hit("b"))
    assert not any("trust" in entry for entry in recalled(clean))


async def test_c31_the_window_passes_its_label_on() -> None:
    patch = LLMContextPatch(recent_turns=[turn("w", trust=TAINTED)])
    fetch = await fetched(OfferedMemory(patch, [hit("a")]))
    assert fetch.blocks is not None
    assert fetch.blocks.trust is TAINTED


@pytest.mark.parametrize(
    ("hits", "recall"),
    [
        ([hit("low", score=0.1, trust=TAINTED)], {"min_score": 0.5}),
        ([hit("window", trust=TAINTED)], {}),
        ([hit("twice", turn_id="1"), hit("twice", turn_id="2", trust=TAINTED)], {}),
        ([hit("big" * 900, trust=TAINTED)], {"budget_bytes": 1024}),
    ],
    ids=["floor", "window", "duplicate", "budget"],
)
async def test_c32_what_is_removed_does_not_taint(hits: Any, recall: Any) -> None:
    patch = LLMContextPatch(recent_turns=[turn("window")])
    fetch = await fetched(OfferedMemory(patch, hits), recall=replace(RECALL, **recall))
    assert fetch.blocks is not None
    assert fetch.blocks.trust is Trust.TRUSTED_USER


async def test_c33_a_lone_surrogate_becomes_a_mark() -> None:
    [entry] = recalled(await found(hit("a\ud800b", "\udfffé")))
    assert (entry["user"], entry["assistant"]) == ("a\ufffdb", "\ufffdé")


async def test_c34_a_message_that_is_replayed_is_not_recalled() -> None:
    store = OfferedMemory(hits=[hit("seen"), hit("unseen")])
    fetch = await fetched(store, already_visible=["seen", ""])
    assert users(fetch) == ["unseen"]
    assert fetch.report.dropped_by_window == 1


async def test_the_report_says_where_every_hit_went() -> None:
    at = datetime(2026, 11, 30, tzinfo=UTC)
    fetch = await found(hit("a", "b", 0.25, at=at))
    assert fetch.report == RecallReport(
        requested=True,
        top_k=5,
        returned=1,
        kept=1,
        kept_bytes=len(
            '{"assistant":"b","score":0.25,"timestamp":"2026-11-30T00:00:00Z","user":"a"}'
        ),
        unindexed=2,
        top_score=0.25,
    )
