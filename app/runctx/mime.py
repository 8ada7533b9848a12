"""What a file is said to be, and what its first bytes say it is (run-context.md 4.2, 7).

The two are kept apart: what somebody declared is their word, and nothing that opens a file on its
own may take it for more.
"""

from __future__ import annotations

import codecs
from typing import Final

OCTETS: Final = "application/octet-stream"
TEXT: Final = "text/plain"
_HTML: Final = "text/html"
_SNIFFED_BYTES: Final = 1024
_MAGIC: Final = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"%PDF-", "application/pdf"),
    (b"PK\x03\x04", "application/zip"),
    (b"\x1f\x8b", "application/gzip"),
)
# Marks of what a browser would run, wherever in the beginning they stand.
_ACTIVE: Final = (b"<!doctype html", b"<html", b"<head", b"<body", b"<script", b"<iframe", b"<svg")


def media_type(mime: str) -> str:
    """The type without parameters in lower case; empty where there is no sound one."""
    plain = mime.partition(";")[0].strip().lower()
    family, slash, subtype = plain.partition("/")
    is_sound = slash and family.strip() and subtype.strip() and "/" not in subtype
    return plain if is_sound else ""


def sniffed(content: bytes) -> str:
    """The media type that the bytes themselves show."""
    sniffer = Sniffer()
    sniffer.feed(content)
    return sniffer.found()


class Sniffer:
    """Finds which media type bytes themselves show, while they come in piece by piece.

    The beginning says what they are; that they are text is known only at their end.
    """

    def __init__(self) -> None:
        self._beginning = b""
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        self._is_text = True

    def feed(self, piece: bytes) -> None:
        """Take the next bytes."""
        self._beginning += piece[: _SNIFFED_BYTES - len(self._beginning)]
        self._is_text = self._is_text and b"\0" not in piece and self._decodes(piece)

    def found(self) -> str:
        """The type, once all bytes were taken."""
        is_text = self._is_text and self._decodes(b"", ends=True)
        return _shown(self._beginning) or (TEXT if is_text else OCTETS)

    def _decodes(self, piece: bytes, *, ends: bool = False) -> bool:
        try:
            self._decoder.decode(piece, ends)
        except UnicodeDecodeError:
            return False
        return True


def _shown(beginning: bytes) -> str:
    """The type whose mark the bytes have; empty for text and for what nobody knows.

    What a browser could run counts as that, even where it begins like something else.
    """
    lowered = beginning.lower()
    if any(mark in lowered for mark in _ACTIVE):
        return _HTML
    for magic, kind in _MAGIC:
        if beginning.startswith(magic):
            return kind
    if beginning.startswith(b"RIFF") and beginning[8:12] == b"WEBP":
        return "image/webp"
    return ""


def is_text(content: bytes) -> bool:
    """Whether the bytes are UTF-8 without NUL."""
    if b"\0" in content:
        return False
    try:
        content.decode()
    except UnicodeDecodeError:
        return False
    return True


def served_type(declared: str, found: str) -> str:
    """The type to serve a file under: what was declared, unless the bytes say otherwise."""
    if found == TEXT or media_type(declared) == found != _HTML:
        kind = media_type(declared)
        return kind if kind and not _is_active(kind) else OCTETS
    return OCTETS


def _is_active(kind: str) -> bool:
    return kind in {_HTML, "image/svg+xml"} or kind.endswith(("xml", "javascript", "ecmascript"))
