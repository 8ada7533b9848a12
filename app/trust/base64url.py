"""Unpadded base64url, where each sequence of bytes has exactly one spelling (RFC 4648 5)."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode


def encode(data: bytes) -> str:
    """The text of `data`, without padding."""
    return urlsafe_b64encode(data).rstrip(b"=").decode()


def decode(text: str) -> bytes | None:
    """The bytes of `text`, or None where it is not the one spelling of any bytes."""
    try:
        data = urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except ValueError:
        return None
    # The library skips stray characters, and takes padding, `+`, `/` and non-zero trailing bits.
    # None of these survives the way back.
    return data if encode(data) == text else None
