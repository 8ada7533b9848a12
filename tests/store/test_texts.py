"""Text that Postgres cannot hold, kept reversibly."""

from __future__ import annotations

import json

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.store.texts import escape, searchable, unescape

TEXT = st.text(
    st.one_of(st.sampled_from("\0\uffff01\\u"), st.characters(exclude_categories=["Cs"]))
)


@given(TEXT)
def test_f82_an_escaped_text_has_no_nul_and_comes_back_unchanged(text: str) -> None:
    assert "\0" not in escape(text)
    assert unescape(escape(text)) == text


@given(TEXT, TEXT)
def test_different_texts_stay_different(one: str, other: str) -> None:
    assert (escape(one) == escape(other)) == (one == other)


@pytest.mark.parametrize("text", ["", "plain", "a\\u0000b", "ünïcode"])
def test_ordinary_text_is_kept_as_it_is(text: str) -> None:
    assert escape(text) == text


@given(TEXT)
def test_a_searchable_copy_shows_a_nul_as_an_escape_and_keeps_all_else(text: str) -> None:
    copy = json.loads(searchable(orjson.dumps({"text": text}).decode()))
    assert copy == {"text": text.replace("\0", "\\u0000")}
