"""YAML of strangers, read as data and nothing else (run-context.md 6)."""

from __future__ import annotations

import time

import pytest

from app.runctx.skills.front_matter import FrontMatterDefect, split_front_matter


def test_front_matter_is_read_and_the_rest_kept_to_the_letter() -> None:
    text = "---\nname: a\nwhen: 2026-01-02\nlist: [1, 2.5, true, null, yes]\n---\r\n\n# Hi\n---\n"
    front, body = split_front_matter(text)
    assert front == {"name": "a", "when": "2026-01-02", "list": [1, 2.5, True, None, "yes"]}
    assert body == "\n# Hi\n---\n"


def test_block_texts_and_quotes_are_texts() -> None:
    front, body = split_front_matter('\ufeff---\na: >-\n  one\n  two\nb: "x: y"\nc:\n  d: e\n---')
    assert front == {"a": "one two", "b": "x: y", "c": {"d": "e"}}
    assert body == ""


BOMB = "a: &a [x]\nb: &b [*a, *a]\nc: [*b, *b]"


@pytest.mark.parametrize(
    ("front", "problem"),
    [
        (BOMB, "an alias"),
        ("a: 1\na: 2", "a key twice"),
        ("a: {b: 1, b: 2}", "a key twice"),
        ("? [x]\n: y", "a key that is no text"),
        ("<<: {a: b}", "a key that is no text"),
        ("a: !!python/object/apply:os.system [ls]", "a tag of its own"),
        ("a: !!python/name:os.system", "a tag of its own"),
        ("a: !x y", "a tag of its own"),
        ("a: !!set {x}", "a tag of its own"),
        ("a: !!binary aGk=", "a tag of its own"),
        ("- a", "no mapping"),
        ("", "no mapping"),
        ("a: [", "not YAML"),
        ("a: b: c", "not YAML"),
        ("a: \x01", "not YAML"),
        ("a: x\n...\nb: y", "not YAML"),
        ("a: " + "[" * 17 + "]" * 17, "nested deeper"),
        ("a: " + "[" * 5000, "nested deeper"),
        ('a: "\\ud800"', "a lone surrogate"),
        ('"\\udc00": a', "a lone surrogate"),
        ("a: " + "x" * 16_384, "more than 16384 bytes"),
    ],
)
def test_anything_but_plain_data_is_refused(front: str, problem: str) -> None:
    with pytest.raises(FrontMatterDefect, match=problem):
        split_front_matter(f"---\n{front}\n---\nbody")


@pytest.mark.parametrize("text", ["", "# Hi", "--- \na: b", "x\n---\na: b\n---\n"])
def test_a_text_without_front_matter_is_refused(text: str) -> None:
    with pytest.raises(FrontMatterDefect, match="two lines of ---"):
        split_front_matter(text)


@pytest.mark.parametrize("opening", ["[", "{", "[a, ", "- ", "? "])
def test_deep_nesting_is_refused_before_it_takes_time(opening: str) -> None:
    began = time.process_time()
    with pytest.raises(FrontMatterDefect, match="nested deeper"):
        split_front_matter(f"---\na:\n {(opening * 8000)[:16_000]}\n---\n")
    assert time.process_time() - began < 2
