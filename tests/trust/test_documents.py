"""JSON is read strictly and written in one form."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, field_validator

from app.trust.documents import (
    FirstVersion,
    Nonce,
    UnixSeconds,
    is_canonical,
    match_model,
    read_model,
    read_object,
)
from app.trust.refusal import Refused

_REFUSED = {
    "not UTF-8": b'{"a":"\xff"}',
    "UTF-16": '{"a":1}'.encode("utf-16"),
    "byte order mark": b'\xef\xbb\xbf{"a":1}',
    "not JSON": b"{",
    "two values": b"{}{}",
    "a list": b"[]",
    "null": b"null",
    "a member twice": b'{"a":1,"a":1}',
    "a nested member twice": b'{"a":[{"b":1,"b":2}]}',
    "NaN": b'{"a":NaN}',
    "infinity": b'{"a":-Infinity}',
    "too deep": b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "an endless integer": b'{"a":' + b"9" * 5000 + b"}",
}


def test_an_object_is_read() -> None:
    assert read_object(' {"a": [1, null, "ä"]} '.encode()) == {"a": [1, None, "ä"]}


def test_numbers_of_others_may_be_large_and_nesting_has_a_bound() -> None:
    assert read_object(b'{"a":18446744073709551615}') == {"a": 18446744073709551615}
    assert read_object(b'{"a":[[1]]}', max_depth=3) == {"a": [[1]]}
    assert read_object(b'{"a":[[1]]}', max_depth=2) is None


class Point(BaseModel):
    """A model to read."""

    x: int
    y: int


def test_a_model_is_read_from_bytes_and_from_members() -> None:
    assert read_model(Point, b'{"x":1,"y":2}') == Point(x=1, y=2)
    assert match_model(Point, {"x": 1, "y": 2}) == Point(x=1, y=2)


def test_the_first_problem_of_a_model_is_named() -> None:
    assert read_model(Point, b'{"z":1}') == Refused("/x: Field required")
    assert match_model(Point, {"x": 1}) == Refused("/y: Field required")


class Even(BaseModel):
    """A model with a rule of its own, which takes no other members."""

    model_config = ConfigDict(extra="forbid")

    n: int = 0

    @field_validator("n")
    @classmethod
    def _even(cls, n: int) -> int:
        if n % 2:
            raise ValueError("must be even")
        return n


def test_a_problem_is_told_in_the_words_of_its_rule_at_a_pointer_that_holds() -> None:
    assert match_model(Even, {"n": 1}) == Refused("/n: must be even")
    assert match_model(Even, {"a/b~c": 1}) == Refused("/a~1b~0c: Extra inputs are not permitted")


def test_a_model_is_never_read_from_an_unsound_object() -> None:
    refusal = Refused("expected one JSON object with no member twice")
    assert read_model(Point, b'{"x":1,"x":1,"y":2}') == refusal
    assert read_model(Point, b'{"x":1,"y":2}', max_depth=0) == refusal


class Signed(BaseModel):
    """What signed texts have in common."""

    model_config = ConfigDict(strict=True)

    v: FirstVersion = 1
    nonce: Nonce = "AAECAwQFBgcICQoLDA0ODw"
    at: UnixSeconds = 0


@pytest.mark.parametrize("at", [0, 253_402_300_799])
def test_a_time_ends_with_the_year_9999(at: int) -> None:
    assert match_model(Signed, {"at": at}) == Signed(at=at)


@pytest.mark.parametrize(
    "wrong",
    [
        {"v": 0},
        {"v": 2},
        {"v": True},
        {"nonce": ""},
        {"nonce": "AAECAwQFBgcICQoLDA0O"},
        {"nonce": "AAECAwQFBgcICQoLDA0ODw=="},
        {"at": -1},
        {"at": 253_402_300_800},
    ],
    ids=str,
)
def test_members_that_signed_texts_share_have_one_form(wrong: dict[str, object]) -> None:
    assert isinstance(match_model(Signed, wrong), Refused)


@pytest.mark.parametrize("data", _REFUSED.values(), ids=_REFUSED.keys())
def test_what_is_no_plain_object_is_refused(data: bytes) -> None:
    assert read_object(data) is None


@pytest.mark.parametrize(
    ("data", "holds"),
    [
        (b'{"a":1,"b":[true,null]}', True),
        (b'{"b":1,"a":1}', False),
        (b'{"a": 1}', False),
        (b'{"a":1.0}', False),
        (b'{"a":"\\u0041"}', False),
        (b'{"a":"\\ud800"}', False),
        (b'{"a":9007199254740993}', False),
        (b'{"a":1e999}', False),
        (b"[" * 100_000, False),
    ],
)
def test_only_the_one_form_is_canonical(data: bytes, *, holds: bool) -> None:
    assert is_canonical(data) is holds


@given(st.binary(max_size=64))
def test_no_bytes_raise(data: bytes) -> None:
    read_object(data)
    is_canonical(data)
