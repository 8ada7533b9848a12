"""Secrets of this machine: private, made once, and never read half written."""

from __future__ import annotations

import stat
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from app.errors import StoreUnavailable
from app.store.private_file import kept

if TYPE_CHECKING:
    from pathlib import Path


def unused() -> bytes:
    raise AssertionError("the content was there")


def test_the_first_reader_makes_the_file_and_the_next_reads_it(tmp_path: Path) -> None:
    path = tmp_path / "data" / "key.json"
    assert kept(path, lambda: b"one") == b"one"
    assert kept(path, unused) == b"one"


def test_only_the_owner_may_read_it_or_see_its_folder(tmp_path: Path) -> None:
    path = tmp_path / "data" / "key.json"
    kept(path, lambda: b"one")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_those_who_come_together_agree(tmp_path: Path) -> None:
    path = tmp_path / "key.json"
    with ThreadPoolExecutor(16) as threads:
        read = threads.map(lambda at: kept(path, lambda: bytes([at]) * 1000), range(64))
    assert set(read) == {path.read_bytes()}


def test_nothing_else_is_left_in_the_folder(tmp_path: Path) -> None:
    kept(tmp_path / "key.json", lambda: b"one")
    assert [path.name for path in tmp_path.iterdir()] == ["key.json"]


def test_a_folder_that_cannot_be_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StoreUnavailable, match=r"cannot keep .*key\.json"):
        kept(tmp_path / "file" / "key.json", lambda: b"one")
