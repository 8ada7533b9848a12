"""The audit chain: each event's hash covers the one before it, its text and its private bytes.

The encoding has one reading: the previous hash is 32 bytes, then come both lengths, eight bytes
each, then the bytes themselves. The private length is stored plus one, and 0 says that there are
none, so an empty private column and an absent one differ.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from struct import Struct
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

HASH_BYTES: Final = 32
GENESIS: Final = bytes(HASH_BYTES)
_LENGTHS: Final = Struct(">QQ")


@dataclass(frozen=True, slots=True)
class ChainRecord:
    """One row of a log as it is kept: `body` is the exact text that was hashed."""

    seq: int
    body: bytes
    private: bytes | None
    prev_hash: bytes
    hash: bytes


@dataclass(frozen=True, slots=True)
class Break:
    """The first record that does not follow from those before it."""

    seq: int
    what: str


def link(prev: bytes, body: bytes, private: bytes | None) -> bytes:
    """The 32-byte hash of the event `body` after the event whose hash is `prev`."""
    if len(prev) != HASH_BYTES:
        raise ValueError(f"a previous hash has {HASH_BYTES} bytes, found {len(prev)}")
    if private is None:
        return sha256(b"".join((prev, _LENGTHS.pack(len(body), 0), body))).digest()
    lengths = _LENGTHS.pack(len(body), len(private) + 1)
    return sha256(b"".join((prev, lengths, body, private))).digest()


def verify_chain(
    records: Iterable[ChainRecord], *, prev: bytes = GENESIS, after: int = 0
) -> Break | None:
    """The first break in `records`, which follow the event `after` whose hash is `prev`."""
    for record in records:
        after += 1
        if record.seq != after:
            return Break(record.seq, f"seq must be {after}, found {record.seq}")
        if record.prev_hash != prev:
            return Break(record.seq, "prev_hash is not the hash of the event before")
        if record.hash != link(prev, record.body, record.private):
            return Break(record.seq, "hash does not cover body and private bytes")
        prev = record.hash
    return None
