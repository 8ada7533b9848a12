"""`strict_loads` reads any JSON text by the rules of arguments, for bodies as well."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from app.engine.json.arguments import JsonDefect, strict_loads


@pytest.mark.parametrize(
    ("text", "value"),
    [("[1, 2.5]", [1, 2.5]), ("null", None), ('"a"', "a"), (b'{"a": {}}', {"a": {}})],
)
def test_any_value_may_stand_at_the_top(text: str | bytes, value: object) -> None:
    assert strict_loads(text) == value


def test_a_body_may_hold_big_numbers_where_they_are_wanted() -> None:
    text = "[9007199254740993, 123456789012345678901234567890, 1e20, 1.0]"
    value = strict_loads(text, big_numbers=True)
    assert value == [9007199254740993, 123456789012345678901234567890, 1e20, 1.0]
    assert isinstance(value, list)
    assert isinstance(value[3], float)


@dataclass(frozen=True)
class Bad:
    id: str
    text: str | bytes
    message: str


BAD = (
    Bad("duplicate", '[{"a":1,"a":1}]', "at /0/a: a key that occurs twice"),
    Bad("nan", "[NaN]", "at /0: NaN, which is not a JSON number"),
    Bad("infinity", "[1,-1e999]", "at /1: a number beyond 2^53-1 in magnitude"),
    Bad("digits", "9" * 1001, "at the top level: a number of more than 1000 digits"),
    Bad("huge", "[" + "9" * 400 + "]", "at /0: a number beyond 2^53-1 in magnitude"),
    Bad("surrogate", '["\\udc00"]', "at /0: a lone surrogate"),
)


@pytest.mark.parametrize("case", BAD, ids=lambda case: case.id)
def test_a_body_with_big_numbers_is_otherwise_as_strict(case: Bad) -> None:
    """F79."""
    with pytest.raises(JsonDefect) as caught:
        strict_loads(case.text, big_numbers=True)
    assert str(caught.value).startswith(case.message)
    assert caught.value.defect == str(caught.value)


def test_the_depth_is_the_callers_choice() -> None:
    assert strict_loads("[[[1]]]", max_depth=3) == [[[1]]]
    with pytest.raises(JsonDefect, match="deeper than 2 levels"):
        strict_loads("[[[1]]]", max_depth=2)


def test_brackets_in_strings_and_siblings_do_not_nest() -> None:
    text = '["[[[[{{{{", "\\"[[[[", [], [], {}, [[]]]'
    assert strict_loads(text, max_depth=3) == ["[[[[{{{{", '"[[[[', [], [], {}, [[]]]


@pytest.mark.parametrize(
    "bomb", ["[" * 1_000_000, '{"a":' * 200_000, "[" * 100_000 + "]" * 100_000]
)
def test_a_depth_bomb_is_refused_before_it_is_parsed(bomb: str) -> None:
    with pytest.raises(JsonDefect, match="nested deeper than 64 levels"):
        strict_loads(bomb)


@pytest.mark.parametrize("text", ['"' + "[" * 100, '"' + "\\" * 101, "]" * 100 + "[" * 100])
def test_broken_text_full_of_brackets_is_broken_text(text: str) -> None:
    with pytest.raises(JsonDefect, match="invalid JSON"):
        strict_loads(text)
