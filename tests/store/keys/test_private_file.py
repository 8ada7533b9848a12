"""Secrets of this machine: private, made once, and never read half written."""

from __future__ import annotations

import stat
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from app.errors import StoreUnavailable
from app.store.keys.private_file import kept, replace

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


def test_a_replaced_file_is_private_and_whole(tmp_path: Path) -> None:
    path = tmp_path / "data" / "key.json"
    replace(path, b"one")
    path.chmod(0o644)
    replace(path, b"two")
    assert path.read_bytes() == b"two"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [entry.name for entry in path.parent.iterdir()] == ["key.json"]


def test_whoever_reads_while_it_is_replaced_has_one_content_or_the_other(tmp_path: Path) -> None:
    path = tmp_path / "key.json"
    contents = [bytes([at]) * 100_000 for at in range(64)]
    replace(path, contents[0])
    with ThreadPoolExecutor(8) as threads:
        written = threads.map(lambda content: replace(path, content), contents)
        read = list(threads.map(lambda _: path.read_bytes(), range(64)))
    assert list(written) == [None] * 64
    assert set(read) <= set(contents)


def test_what_cannot_be_replaced_is_told_and_left_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "key.json"
    (path / "inside").mkdir(parents=True)
    with pytest.raises(StoreUnavailable, match=r"cannot keep .*key\.json"):
        replace(path, b"two")
    assert [entry.name for entry in tmp_path.iterdir()] == ["key.json"]
