"""Markdown in pieces (run-context.md 6)."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as some

from app.runctx.skills.markdown_sections import sections


def test_a_text_is_cut_before_each_second_level_heading() -> None:
    text = "# One\nfirst\n\n## Two ##\na\n### Three\nb\n##\nrest"
    assert [(one.title, one.text) for one in sections(text)] == [
        ("", "# One\nfirst\n\n"),
        ("Two", "## Two ##\na\n### Three\nb\n"),
        ("", "##\nrest"),
    ]


@pytest.mark.parametrize(
    "fenced",
    [
        "```\n## no\n```\n",
        "~~~~ md\n## no\n~~~\n## no\n~~~~~\n",
        "```sh\n## no\n```  x\n## no\n",
        "   ```\n## no\n   ```\n",
    ],
)
def test_a_heading_inside_a_fence_cuts_nothing(fenced: str) -> None:
    assert [one.text for one in sections(f"a\n{fenced}")] == [f"a\n{fenced}"]


@pytest.mark.parametrize("line", ["##no", "    ## code", "### Three", "a ## b"])
def test_what_looks_like_a_heading_cuts_nothing(line: str) -> None:
    assert len(sections(f"a\n{line}\n")) == 1


def test_blank_lines_belong_to_what_follows() -> None:
    assert [one.text for one in sections("\n\n## A\nx\n")] == ["\n\n## A\nx\n"]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_a_line_ends_as_it_does_in_markdown(end: str) -> None:
    assert [one.title for one in sections(f"a{end}## A{end}b{end}")] == ["", "A"]


@pytest.mark.parametrize("letter", ["\v", "\f", "\x1c", "\x85", "\u2028", "\u2029"])
def test_what_only_python_takes_for_the_end_of_a_line_ends_none(letter: str) -> None:
    text = f"a{letter}## no\n```\n```{letter}\n## no\n```\n## A{letter}B\n"
    assert [one.title for one in sections(text)] == ["", f"A{letter}B"]


@given(some.text(alphabet="#`~ \n\r\tab\f\u2028", max_size=80))
def test_the_pieces_in_order_are_the_text(text: str) -> None:
    """C139."""
    assert "".join(one.text for one in sections(text)) == text


@pytest.mark.parametrize(
    ("line", "title"),
    [
        ("## A # B", "A # B"),
        ("## A ##\t", "A"),
        ("## C#", "C#"),
        ("##  ##", ""),
        ("##\tA\t#", "A"),
        ("## # #", "#"),
    ],
)
def test_the_marks_that_close_a_heading_are_no_part_of_its_title(line: str, title: str) -> None:
    assert [one.title for one in sections(line)] == [title]


def test_a_heading_of_white_space_takes_no_time() -> None:
    """A heading of a megabyte that is read again from each of its places would take hours."""
    began = time.process_time()
    sections("## a" + " " * 1_000_000 + "x")
    assert time.process_time() - began < 5
