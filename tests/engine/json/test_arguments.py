"""Arguments are read strictly and have one canonical form (turn.md 3.3)."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import pytest
import rfc8785
from hypothesis import given, settings
from hypothesis import strategies as st

from app.engine.json.arguments import (
    Arguments,
    Malformed,
    canonical_bytes,
    parse_arguments,
    strict_loads,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from pydantic import JsonValue

MIB = 1024 * 1024


def accepted(text: str | bytes) -> Arguments:
    result = parse_arguments(text)
    assert isinstance(result, Arguments), result
    return result


def refused(text: str | bytes) -> Malformed:
    result = parse_arguments(text)
    assert isinstance(result, Malformed), result
    return result


@dataclass(frozen=True)
class Bad:
    id: str
    text: str | bytes
    defect: str
    pointer: str = ""


BIG = "a number beyond 2^53-1 in magnitude; send it as a string"
TOP = "at the top level: "
BAD = (
    Bad("a-list", "[]", TOP + "expected a JSON object, found array"),
    Bad("null", "null", TOP + "expected a JSON object, found null"),
    Bad("a-string", '"{}"', TOP + "expected a JSON object, found string"),
    Bad("a-key-twice", '{"a":1,"b":2,"a":3}', "at /a: a key that occurs twice", "/a"),
    Bad("inner-key-twice", '{"x":[{"k":1,"k":1}]}', "at /x/0/k: a key that occurs twice", "/x/0/k"),
    Bad("escaped-key-twice", '{"a":1,"\\u0061":1}', "at /a: a key that occurs twice", "/a"),
    Bad("nan", '{"a":NaN}', "at /a: NaN, which is not a JSON number", "/a"),
    Bad("minus-infinity", '{"a":-Infinity}', "at /a: -Infinity, which is not a JSON number", "/a"),
    Bad("overflow", '{"a":1e999}', f"at /a: {BIG}", "/a"),
    Bad("two-to-the-53", '{"a":9007199254740992}', f"at /a: {BIG}", "/a"),
    Bad("minus-two-to-the-53", '{"a":-9007199254740992}', f"at /a: {BIG}", "/a"),
    Bad("big-with-a-point", '{"a":9007199254740992.0}', f"at /a: {BIG}", "/a"),
    Bad("big-with-an-exponent", '{"a":[1,1e20]}', f"at /a/1: {BIG}", "/a/1"),
    Bad(
        "many-digits", '{"a":' + "9" * 5000 + "}", "at /a: a number of more than 1000 digits", "/a"
    ),
    Bad("surrogate", '{"a":"\\ud800"}', "at /a: a lone surrogate", "/a"),
    Bad("low-surrogate", '{"a":"x\\uDFFFy"}', "at /a: a lone surrogate", "/a"),
    Bad(
        "surrogate-in-a-key",
        '{"b":{"\\ud800":1}}',
        "at /b/\\ud800: a key with a lone surrogate",
        "/b/\\ud800",
    ),
    Bad("raw-surrogate", '{"a":"\ud800"}', "at character 6: a lone surrogate"),
    Bad("not-utf-8", b'{"a":"\xff"}', "at byte 6: not UTF-8"),
    Bad("broken", '{"a":', "at character 5: invalid JSON, Expecting value"),
    Bad("empty", "", "at character 0: invalid JSON, Expecting value"),
    Bad("two-values", "{} {}", "at character 3: invalid JSON, Extra data"),
    Bad("a-mark", "\ufeff{}", "at character 0: invalid JSON, Expecting value"),
    Bad("depth-65", '{"a":' * 64 + "[]" + "}" * 64, TOP + "nested deeper than 64 levels"),
    Bad("odd-key", '{"a/b~":NaN}', "at /a~1b~0: NaN, which is not a JSON number", "/a~1b~0"),
)


@pytest.mark.parametrize("case", BAD, ids=lambda case: case.id)
def test_a_malformed_text_is_refused_with_its_defect_and_place(case: Bad) -> None:
    """T21, F78, F79."""
    assert refused(case.text) == Malformed(case.defect, case.pointer)


def test_a_sentence_stays_short_however_long_the_keys_are() -> None:
    assert len(refused('{"' + "k" * 5000 + '":NaN}').pointer) == 200


def test_one_mebibyte_is_accepted_and_one_byte_more_is_not() -> None:
    filler = '{"a":"' + "é" * ((MIB - 8) // 2) + '"}'
    assert len(filler.encode()) == MIB
    assert len(accepted(filler).canonical) == MIB
    message = f"at the top level: {MIB + 1} bytes, where at most {MIB} are accepted"
    assert refused(filler + " ") == Malformed(message, "")
    assert refused(filler.encode() + b" ") == Malformed(message, "")


def test_depth_64_is_accepted() -> None:
    text = '{"a":' * 63 + "{}" + "}" * 63
    assert accepted(text).canonical == text.encode()


def test_the_largest_exact_numbers_are_accepted() -> None:
    text = '{"a":[9007199254740991,-9007199254740991,9007199254740991.0]}'
    expected = b'{"a":[9007199254740991,-9007199254740991,9007199254740991]}'
    assert accepted(text).canonical == expected


def test_long_identifiers_travel_as_strings() -> None:
    """F78."""
    text = '{"id":"1234567890123456789"}'
    assert accepted(text).canonical == text.encode()


def test_pairs_of_surrogates_are_ordinary_text() -> None:
    value = accepted('{"a":"\\ud83d\\ude00","\\ud83d\\ude00":["\\ud83d\\ude00"]}').value
    assert value == {"a": "\U0001f600", "\U0001f600": ["\U0001f600"]}


@pytest.mark.parametrize(
    ("text", "pointer"),
    [
        ('{"a":"x\\u0000"}', "/a"),
        ('{"a":[1,{"b":"\\u0000"}]}', "/a/1/b"),
        ('{"a":[],"b\\u0000":1}', "/b\0"),
    ],
    ids=["in_a_text", "inside", "in_a_key"],
)
def test_a_nul_character_never_reaches_a_tool(text: str, pointer: str) -> None:
    assert refused(text) == refused(text.encode())
    assert refused(text).pointer == pointer
    assert "a NUL character" in refused(text).defect


def test_what_only_looks_like_nul_is_ordinary_text() -> None:
    assert accepted('{"a":"\\\\u0000"}').value == {"a": "\\u0000"}


def test_a_text_that_is_no_argument_may_hold_nul() -> None:
    assert strict_loads('["\\u0000"]') == ["\0"]


def test_text_and_bytes_read_alike() -> None:
    assert accepted('{"a":"é"}') == accepted('{"a":"é"}'.encode())


@dataclass(frozen=True)
class Pair:
    id: str
    left: str
    right: str
    equal: bool


PAIRS = (
    Pair("key-order", '{"b":1,"a":{"d":1,"c":2}}', '{"a":{"c":2,"d":1},"b":1}', True),
    Pair("one", '{"a":1}', '{"a":1.0}', True),
    Pair("zero", '{"a":-0.0}', '{"a":0}', True),
    Pair("exponent", '{"a":1e3}', '{"a":1000}', True),
    Pair("escapes", '{"a":"\\u0061\\/"}', '{ "a" : "a/" }', True),
    Pair("one-and-a-half", '{"a":1}', '{"a":1.5}', False),
    Pair("array-order", '{"a":[1,2]}', '{"a":[2,1]}', False),
    Pair("text-and-number", '{"a":"1"}', '{"a":1}', False),
    Pair("composed-and-decomposed", '{"a":"\\u00e9"}', '{"a":"e\\u0301"}', False),
)


@pytest.mark.parametrize("case", PAIRS, ids=lambda case: case.id)
def test_calls_are_equal_by_canonical_value(case: Pair) -> None:
    """T24, T34."""
    left, right = accepted(case.left), accepted(case.right)
    assert (left == right) is case.equal
    assert (left.canonical == right.canonical) is case.equal
    assert (left.sha256 == right.sha256) is case.equal


# The vectors are what RFC 8785 and the number rules of ECMAScript ask for, written by hand.
VECTORS: tuple[tuple[JsonValue, str], ...] = (
    ({"\u20ac": 1, "\r": 2, "\ufb33": 3, "1": 4, "\U0001f600": 5, "\x80": 6, "ö": 7},
     '{"\\r":2,"1":4,"\x80":6,"ö":7,"€":1,"\U0001f600":5,"\ufb33":3}'),
    (1e-7, "1e-7"),
    (0.000001, "0.000001"),
    (1e21, "1e+21"),
    (1e20, "100000000000000000000"),
    (-0.0, "0"),
    (5e-324, "5e-324"),
    (333333333.33333329, "333333333.3333333"),
    (1.0, "1"),
    ("\x00\x1f\x7f\b\t\n\f\r\"\\/é", '"\\u0000\\u001f\x7f\\b\\t\\n\\f\\r\\"\\\\/é"'),
    ([None, True, False, [], {}], "[null,true,false,[],{}]"),
    ({"b": [1, {"ö": 2, "z": 3}], "a": 2**53 - 1}, '{"a":9007199254740991,"b":[1,{"z":3,"ö":2}]}'),
    ({"b": [{"d": -1, "c": ""}], "a": "\U0001f600"}, '{"a":"\U0001f600","b":[{"c":"","d":-1}]}'),
    ({"b": [1, 1e21], "a": 0.5}, '{"a":0.5,"b":[1,1e+21]}'),
)  # fmt: skip


@pytest.mark.parametrize(("value", "text"), VECTORS)
def test_the_canonical_form_is_rfc_8785(value: JsonValue, text: str) -> None:
    """F77."""
    assert canonical_bytes(value) == text.encode()


COMPACT = (",", ":")
WRONG_CANONICALISERS: dict[str, Callable[[JsonValue], str]] = {
    "numbers-and-order": partial(
        json.dumps, sort_keys=True, ensure_ascii=False, separators=COMPACT
    ),
    "not-sorted": partial(json.dumps, ensure_ascii=False, separators=COMPACT),
    "escapes-everything": partial(json.dumps, sort_keys=True, separators=COMPACT),
    "keeps-spaces": partial(json.dumps, sort_keys=True, ensure_ascii=False),
}


@pytest.mark.parametrize("name", WRONG_CANONICALISERS)
def test_the_vectors_catch_a_wrong_canonicaliser(name: str) -> None:
    """F77: vectors that pass anything prove nothing."""
    wrong = WRONG_CANONICALISERS[name]
    assert any(wrong(value) != text for value, text in VECTORS)


def test_what_has_no_canonical_form_is_an_error() -> None:
    without: tuple[JsonValue, ...] = (float("nan"), 2**53, {"a": "\ud800"}, {"\ud800": 1})
    for value in without:
        with pytest.raises(ValueError, match=r"JCS|domain|codepoints|surrogates"):
            canonical_bytes(value)


def test_the_digest_is_that_of_the_canonical_bytes() -> None:
    empty = accepted(" { } ")
    assert empty.canonical == b"{}"
    assert empty.sha256 == "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"


TAKEN = st.characters(exclude_categories=["Cs"], exclude_characters="\0")
KEYS = st.text(TAKEN, max_size=4)
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers(-(2**53) + 1, 2**53 - 1)
    | st.floats(-(2.0**53) + 1, 2.0**53 - 1)
    | st.text(TAKEN)
)
VALUES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner)
)


@given(VALUES)
def test_the_fast_way_writes_what_the_reference_writes(value: JsonValue) -> None:
    """F77."""
    assert canonical_bytes(value) == rfc8785.dumps(value)


@settings(max_examples=60)
@given(st.dictionaries(KEYS, VALUES, max_size=6), st.booleans())
def test_canonicalising_twice_changes_nothing(value: dict[str, JsonValue], ascii_: bool) -> None:
    """T25, F81: and what a card or a tool parses from the canonical bytes is the value itself."""
    first = accepted(json.dumps(value, ensure_ascii=ascii_))
    assert accepted(first.canonical) == first
    assert accepted(first.canonical).value == first.value
    assert json.loads(first.canonical) == first.value == value
