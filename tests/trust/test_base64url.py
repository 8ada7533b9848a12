"""Base64url has one spelling: what decodes is what the encoder writes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.trust import base64url


def test_known_bytes_have_their_known_text() -> None:
    assert base64url.encode(b"\xfb\xff\xfe") == "-__-"
    assert base64url.decode("-__-") == b"\xfb\xff\xfe"
    assert base64url.decode("") == b""


@pytest.mark.parametrize(
    "text",
    ["QQ==", "QQ=", "Q", "QQ\n", " QQ", "QR", "+//+", "QÄ", "Q.Q", "QQQQQ"],
    ids=[
        "padded",
        "half padded",
        "one character",
        "line break",
        "space",
        "trailing bits",
        "other alphabet",
        "not ASCII",
        "stray dot",
        "impossible length",
    ],
)
def test_other_spellings_are_refused(text: str) -> None:
    assert base64url.decode(text) is None


@given(st.binary())
def test_every_byte_sequence_makes_the_round_trip(data: bytes) -> None:
    assert base64url.decode(base64url.encode(data)) == data


@given(st.text())
def test_no_text_raises_and_what_decodes_has_that_spelling(text: str) -> None:
    data = base64url.decode(text)
    assert data is None or base64url.encode(data) == text
