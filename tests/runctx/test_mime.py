"""What a file is said to be, and what its bytes say (run-context.md 4.2, 7)."""

from __future__ import annotations

import pytest

from app.runctx.mime import Sniffer, is_text, media_type, served_type, sniffed

PNG = b"\x89PNG\r\n\x1a\n\0\0"
POLYGLOT = b"GIF89a/*<script>alert(1)</script>*/"


@pytest.mark.parametrize(
    ("mime", "plain"),
    [
        ("text/plain; charset=utf-8", "text/plain"),
        ("IMAGE/PNG", "image/png"),
        (" text/csv ;a=b", "text/csv"),
        ("image", ""),
        ("", ""),
        ("/png", ""),
        ("image/", ""),
        ("a/b/c", ""),
    ],
)
def test_c92_the_media_type_is_plain_and_lower_case(mime: str, plain: str) -> None:
    """C87 as well."""
    assert media_type(mime) == plain


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (PNG, "image/png"),
        (b"\xff\xd8\xff\xe0", "image/jpeg"),
        (b"GIF87a", "image/gif"),
        (b"GIF89a\0", "image/gif"),
        (b"RIFF\0\0\0\0WEBPVP8 ", "image/webp"),
        (b"RIFF\0\0\0\0WAVE", "application/octet-stream"),
        (b"%PDF-1.7", "application/pdf"),
        (b"PK\x03\x04", "application/zip"),
        (b"\x1f\x8b\x08", "application/gzip"),
        (b"  <!DOCTYPE HTML>", "text/html"),
        (POLYGLOT, "text/html"),
        (b"<svg onload=alert(1)>", "text/html"),
        ("größe".encode(), "text/plain"),
        (b"\xff\xfe", "application/octet-stream"),
        (b"a\0b", "application/octet-stream"),
    ],
)
def test_bytes_say_what_they_are(content: bytes, found: str) -> None:
    assert sniffed(content) == found


@pytest.mark.parametrize(
    ("content", "found"),
    [
        ("größe".encode() * 1000, "text/plain"),
        (b"a" * 3000 + b"\xff", "application/octet-stream"),
        (b"a" * 3000 + b"\0", "application/octet-stream"),
        ("ö".encode()[:1], "application/octet-stream"),
        (b" " * 1000 + b"<script>", "text/html"),
        (b" " * 1020 + b"<script>", "text/plain"),
        (PNG, "image/png"),
    ],
)
@pytest.mark.parametrize("size", [1, 7, 1000])
def test_bytes_say_the_same_piece_by_piece(content: bytes, found: str, size: int) -> None:
    sniffer = Sniffer()
    for begin in range(0, len(content), size):
        sniffer.feed(content[begin : begin + size])
    assert sniffer.found() == sniffed(content) == found


def test_text_is_utf_8_without_nul() -> None:
    assert (is_text(b""), is_text(b"\0"), is_text(b"\xff")) == (True, False, False)


@pytest.mark.parametrize(
    ("declared", "content", "served"),
    [
        ("image/png", PNG, "image/png"),
        ("IMAGE/PNG; x=1", PNG, "image/png"),
        ("text/csv", b"a,b", "text/csv"),
        ("image/png", POLYGLOT, "application/octet-stream"),
        ("text/html", b"<html>", "application/octet-stream"),
        ("text/html", b"plain", "application/octet-stream"),
        ("image/svg+xml", b"<svg>", "application/octet-stream"),
        ("application/xhtml+xml", b"text", "application/octet-stream"),
        ("text/javascript", b"alert(1)", "application/octet-stream"),
        ("image/jpeg", PNG, "application/octet-stream"),
        ("nonsense", b"text", "application/octet-stream"),
    ],
)
def test_a_file_is_served_as_it_was_declared_unless_its_bytes_say_otherwise(
    declared: str, content: bytes, served: str
) -> None:
    assert served_type(declared, sniffed(content)) == served
