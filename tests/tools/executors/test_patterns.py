"""Patterns with a bound on their time and on what they make."""

from __future__ import annotations

import asyncio
from time import perf_counter

import pytest

from app.engine.json.patterns import PatternGivenUp, occurs
from app.tools.executors.patterns import with_replaced

CATASTROPHIC = "(a+)+$"
BAIT = "a" * 5000 + "!"


def test_a_pattern_occurs_anywhere_in_the_text() -> None:
    assert occurs("b.d", "abcde")
    assert not occurs("^b", "abcde")


@pytest.mark.parametrize("pattern", [CATASTROPHIC, "(a|aa)+$", "(.*a){20}$"])
def test_a_pattern_that_backtracks_for_ever_is_given_up(pattern: str) -> None:
    began = perf_counter()
    with pytest.raises(PatternGivenUp, match=r"0\.05 s"):
        occurs(pattern, BAIT)
    assert perf_counter() - began < 2
    with pytest.raises(PatternGivenUp):
        with_replaced(pattern, BAIT, "x")


async def test_the_event_loop_goes_on_while_a_pattern_is_tried() -> None:
    turns = 0
    trial = asyncio.ensure_future(asyncio.to_thread(occurs, CATASTROPHIC, BAIT))
    while not trial.done():
        turns += 1
        await asyncio.sleep(0)
    with pytest.raises(PatternGivenUp):
        await trial
    assert turns > 10


@pytest.mark.parametrize(
    ("pattern", "text", "replaced"),
    [
        ("sk-[a-z]+", "a sk-abc b sk-d", "a [key] b [key]"),
        ("sk-[a-z]+", "sk-abc", "[key]"),
        ("nothing", "sk-abc", None),
        ("x*", "abc", None),
        ("x*", "axxb", "a[key]b"),
        ("(s)k", "sk", "[key]"),
    ],
)
def test_each_occurrence_is_replaced_by_the_text_as_it_is(
    pattern: str, text: str, replaced: str | None
) -> None:
    assert with_replaced(pattern, text, "[key]") == replaced


def test_a_replacement_is_no_template() -> None:
    assert with_replaced("(a)", "a", r"\1\g<1>$1") == r"\1\g<1>$1"


def test_what_would_grow_without_bound_is_given_up() -> None:
    with pytest.raises(PatternGivenUp, match="4194304"):
        with_replaced("a", "a" * 5000, "b" * 1000)
