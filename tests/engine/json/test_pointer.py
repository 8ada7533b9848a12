"""JSON pointers, by the examples of RFC 6901 and by what they must refuse."""

from __future__ import annotations

from typing import Any

import pytest

from app.engine.json.pointer import (
    pointer_to,
    pointer_token,
    pointer_tokens,
    value_at,
    with_value_at,
)

DOCUMENT: dict[str, Any] = {
    "foo": ["bar", "baz"],
    "": 0,
    "a/b": 1,
    "m~n": 8,
    "~1": 9,
    "line\nfeed": 10,
}


@pytest.mark.parametrize(
    ("pointer", "value"),
    [
        ("", DOCUMENT),
        ("/foo", ["bar", "baz"]),
        ("/foo/0", "bar"),
        ("/", 0),
        ("/a~1b", 1),
        ("/m~0n", 8),
        ("/~01", 9),
        ("/line\nfeed", 10),
    ],
)
def test_a_pointer_finds_its_value(pointer: str, value: object) -> None:
    assert value_at(DOCUMENT, pointer) == value


@pytest.mark.parametrize(
    "pointer", ["/nothing", "/foo/2", "/foo/-", "/foo/01", "/foo/-1", "/foo/1e0", "/a~1b/c"]
)
def test_a_way_that_is_not_there_is_a_lookup_error(pointer: str) -> None:
    with pytest.raises(LookupError):
        value_at(DOCUMENT, pointer)


@pytest.mark.parametrize("text", ["foo", "/a~2", "/a~", "#/foo", " /foo"])
def test_what_is_no_pointer_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="no JSON pointer"):
        pointer_tokens(text)


@pytest.mark.parametrize(
    ("pointer", "expected"),
    [
        ("", "new"),
        ("/a", {"a": "new", "l": [{"b": 2}, 3]}),
        ("/c", {"a": 1, "l": [{"b": 2}, 3], "c": "new"}),
        ("/l/0/b", {"a": 1, "l": [{"b": "new"}, 3]}),
        ("/l/1", {"a": 1, "l": [{"b": 2}, "new"]}),
    ],
)
def test_a_value_is_replaced_in_a_copy(pointer: str, expected: object) -> None:
    before: dict[str, Any] = {"a": 1, "l": [{"b": 2}, 3]}
    assert with_value_at(before, pointer, "new") == expected
    assert before == {"a": 1, "l": [{"b": 2}, 3]}


@pytest.mark.parametrize("pointer", ["/a/b", "/c/d", "/l/2", "/l/-", "/l/1/x"])
def test_nothing_is_made_on_the_way(pointer: str) -> None:
    with pytest.raises(LookupError):
        with_value_at({"a": 1, "l": [{"b": 2}, 3]}, pointer, "new")


def test_a_name_in_a_pointer_escapes_what_parts_names() -> None:
    assert pointer_token("a/b~1") == "a~1b~01"


def test_a_pointer_is_written_of_names_and_indices() -> None:
    assert pointer_to(["m~n", 0, "a/b"]) == "/m~0n/0/a~1b"
    assert pointer_to([]) == ""
