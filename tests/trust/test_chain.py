"""The audit chain: no record can be changed, dropped, added or moved without a visible break."""

from __future__ import annotations

from dataclasses import replace
from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.trust.chain import GENESIS, Break, ChainRecord, link, verify_chain


def chain(*rows: tuple[bytes, bytes | None]) -> list[ChainRecord]:
    records: list[ChainRecord] = []
    prev = GENESIS
    for seq, (body, private) in enumerate(rows, 1):
        digest = link(prev, body, private)
        records.append(ChainRecord(seq, body, private, prev, digest))
        prev = digest
    return records


LOG = chain((b"one", None), (b"two", b"secret"), (b"three", b""))


def test_the_first_event_follows_32_zero_bytes() -> None:
    assert bytes(32) == GENESIS


def test_a_hash_covers_both_lengths_and_both_texts() -> None:
    lengths = (3).to_bytes(8, "big") + (7).to_bytes(8, "big")
    assert link(GENESIS, b"two", b"secret") == sha256(bytes(32) + lengths + b"twosecret").digest()
    lengths = (3).to_bytes(8, "big") + bytes(8)
    assert link(GENESIS, b"two", None) == sha256(bytes(32) + lengths + b"two").digest()


def test_bytes_moved_between_body_and_private_change_the_hash() -> None:
    texts = [(b"ab", b"c"), (b"a", b"bc"), (b"abc", b""), (b"abc", None), (b"", b"abc")]
    assert len({link(GENESIS, body, private) for body, private in texts}) == 5


def test_a_previous_hash_of_another_length_is_a_broken_contract() -> None:
    with pytest.raises(ValueError, match="32 bytes"):
        link(b"", b"one", None)


def test_a_sound_log_has_no_break() -> None:
    assert verify_chain(LOG) is None
    assert verify_chain([]) is None


def test_a_log_can_be_verified_page_by_page() -> None:
    assert verify_chain(LOG[1:], prev=LOG[0].hash, after=1) is None


@pytest.mark.parametrize(
    ("records", "place"),
    [
        ([LOG[0], LOG[2]], Break(3, "seq must be 2, found 3")),
        ([LOG[1]], Break(2, "seq must be 1, found 2")),
        ([LOG[0], LOG[0]], Break(1, "seq must be 2, found 1")),
        ([LOG[1], LOG[0]], Break(2, "seq must be 1, found 2")),
        (
            [LOG[0], replace(LOG[2], seq=2)],
            Break(2, "prev_hash is not the hash of the event before"),
        ),
        (
            [LOG[0], replace(LOG[1], prev_hash=b"")],
            Break(2, "prev_hash is not the hash of the event before"),
        ),
        (
            [replace(LOG[0], body=b"One"), *LOG[1:]],
            Break(1, "hash does not cover body and private bytes"),
        ),
        (
            [LOG[0], replace(LOG[1], private=None), LOG[2]],
            Break(2, "hash does not cover body and private bytes"),
        ),
        (
            [*LOG[:2], replace(LOG[2], private=None)],
            Break(3, "hash does not cover body and private bytes"),
        ),
    ],
    ids=[
        "dropped",
        "first dropped",
        "repeated",
        "swapped",
        "dropped and renumbered",
        "prev hash removed",
        "body changed",
        "private bytes removed",
        "empty private bytes removed",
    ],
)
def test_the_first_break_is_named(records: list[ChainRecord], place: Break) -> None:
    assert verify_chain(records) == place


@given(
    rows=st.lists(st.tuples(st.binary(), st.none() | st.binary()), min_size=1, max_size=5),
    data=st.data(),
)
def test_any_changed_byte_breaks_the_log_where_it_was_changed(
    rows: list[tuple[bytes, bytes | None]], data: st.DataObject
) -> None:
    place = data.draw(st.integers(0, len(rows) - 1))
    other = data.draw(st.binary().filter(lambda body: body != rows[place][0]))
    records = chain(*rows)
    records[place] = replace(records[place], body=other)
    broken = verify_chain(records)
    assert broken is not None
    assert broken.seq == place + 1
