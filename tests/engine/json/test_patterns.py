"""Which patterns are taken, and how many parts one may come to."""

from __future__ import annotations

from time import perf_counter

import pytest

from app.engine.json.patterns import PatternGivenUp, compiled, occurs


@pytest.mark.parametrize(
    "pattern",
    [
        "a{10001}",
        "a{1000000000}",
        "a{1000000000,}",
        "(?:(?:a|bc){1000}){1000}",
        "(?:a{200}b){200}",
        "(?:[)]a{200}){200}",
        "(?:[]()]a{200}){200}",
        r"(?:\)a{200}){200}",
        "(?:a{200}[[:alpha:](]y){200}",
        "a{200})){200}",
        "a{9}" * 5 + "(" * 5 + "a{1000}" + "){20}" * 5,
    ],
)
def test_a_pattern_that_would_be_written_out_too_large_is_refused(pattern: str) -> None:
    began = perf_counter()
    with pytest.raises(ValueError, match="10000 parts"):
        compiled(pattern)
    assert perf_counter() - began < 1


@pytest.mark.parametrize("pattern", ["(?x)[# [\n(?:a{9999}) #]", "(?V1)[[a]--[b]]", "(?#[)a"])
def test_syntax_in_which_sizes_could_hide_is_refused(pattern: str) -> None:
    with pytest.raises(ValueError, match="not supported"):
        compiled(pattern)


@pytest.mark.parametrize("pattern", ["(", "[a", "a**", "\\"])
def test_what_is_no_pattern_is_refused(pattern: str) -> None:
    with pytest.raises(ValueError, match="at position"):
        compiled(pattern)


def test_a_pattern_has_at_most_a_thousand_characters() -> None:
    assert compiled("a" * 1000)
    with pytest.raises(ValueError, match="1000 characters"):
        compiled("a" * 1001)


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("a{10000}", "a" * 10000),
        ("a{0,1000000}b", "aab"),
        (r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}", "6f9619ff-8b86-d011-b42d-00c04fc964ff"),
        ("sk-[a-zA-Z0-9]{48}|ghp_[a-zA-Z0-9]{36}|xox[bp](?:-[0-9]{10,12}){2}", "ghp_" + "a" * 36),
        ("(?i)bearer [a-z]{3}", "BEARER ABC"),
        (r"\p{Lu}{2}", "xÄÖ"),
        ("x{a}", "x{a}"),
    ],
)
def test_what_people_write_is_taken(pattern: str, text: str) -> None:
    assert occurs(pattern, text)


def test_a_pattern_that_is_none_is_given_up_when_it_is_used() -> None:
    with pytest.raises(PatternGivenUp, match="at position"):
        occurs("(", "text")
