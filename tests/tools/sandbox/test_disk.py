"""Folders that others may be changing: no link is followed, whatever is replaced when."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from app.tools.sandbox import disk

if TYPE_CHECKING:
    from pathlib import Path

LINK = r"symbolic links|Not a directory"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder with `a/b.txt`, beside a folder `secret` that nothing may reach."""
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "key").write_text("hidden")
    root = tmp_path / "root"
    (root / "a").mkdir(parents=True)
    (root / "a" / "b.txt").write_text("b")
    return root


def test_regular_files_are_listed_by_path_with_their_sizes(root: Path) -> None:
    (root / "top").write_bytes(b"12345")
    (root / "link").symlink_to(root / "top")
    os.mkfifo(root / "pipe")
    with disk.top(root) as above:
        found = disk.files_below(above, most=10)
        assert [(file.path, file.size_bytes) for file in found] == [("a/b.txt", 1), ("top", 5)]
        assert [file.path for file in disk.files_below(above, ("a",), most=10)] == ["a/b.txt"]


def test_a_list_is_bounded_in_number_and_depth(root: Path) -> None:
    with disk.top(root) as above:
        with pytest.raises(disk.DiskRefused, match="too many files"):
            disk.files_below(above, most=1)
        deep = ("d",) * 65
        disk.write_file(above, (*deep, "x"), b"")
        with pytest.raises(disk.DiskRefused, match="64 deep"):
            disk.files_below(above, most=1000)


@pytest.mark.parametrize("parts", [("out", "key"), ("key",), ("a", "up", "secret", "key")])
def test_no_act_follows_a_symbolic_link(root: Path, parts: disk.Parts) -> None:
    secret = root.parent / "secret"
    (root / "out").symlink_to(secret)
    (root / "key").symlink_to(secret / "key")
    (root / "a" / "up").symlink_to("../..")
    with disk.top(root) as above:
        with pytest.raises(OSError, match=LINK):
            disk.read_file(above, parts, most_bytes=100)
        with pytest.raises(OSError, match=LINK):
            disk.file_size(above, parts)
        if len(parts) > 1:
            with pytest.raises(OSError, match=LINK):
                disk.write_file(above, parts, b"mine")
            with pytest.raises(OSError, match=LINK):
                disk.delete_file(above, parts)
            with pytest.raises(OSError, match=LINK):
                disk.files_below(above, parts[:-1], most=100)
    assert (secret / "key").read_text() == "hidden"


def test_writing_replaces_a_link_and_touches_nothing_behind_it(root: Path) -> None:
    secret = root.parent / "secret" / "key"
    (root / "soft").symlink_to(secret)
    (root / "hard").hardlink_to(secret)
    with disk.top(root) as above:
        for name in ("soft", "hard"):
            disk.write_file(above, (name,), b"mine")
            assert disk.read_file(above, (name,), most_bytes=4) == b"mine"
    assert secret.read_text() == "hidden"
    assert not (root / "soft").is_symlink()


def test_deleting_a_link_leaves_what_it_led_to(root: Path) -> None:
    (root / "soft").symlink_to(root.parent / "secret" / "key")
    with disk.top(root) as above:
        disk.delete_file(above, ("soft",))
    assert (root.parent / "secret" / "key").exists()


def test_a_folder_swapped_for_a_link_while_it_is_open_changes_nothing(root: Path) -> None:
    """The walk holds folders, not names: this is the race that a check of the path would lose."""
    secret = root.parent / "secret"
    with disk.top(root) as above, disk.folder(above, ("a",)) as opened:
        (root / "a").rename(root / "moved")
        (root / "a").symlink_to(secret)
        assert disk.read_file(opened, ("b.txt",), most_bytes=10) == b"b"
        disk.write_file(opened, ("new",), b"n")
    assert sorted(path.name for path in secret.iterdir()) == ["key"]
    assert (root / "moved" / "new").read_bytes() == b"n"


def test_what_is_no_regular_file_or_too_large_is_refused(root: Path) -> None:
    os.mkfifo(root / "pipe")
    with disk.top(root) as above:
        with pytest.raises(disk.DiskRefused, match="regular"):
            disk.read_file(above, ("pipe",), most_bytes=10)
        with pytest.raises(disk.DiskRefused, match="regular"):
            disk.file_size(above, ("a",))
        (root / "big").write_bytes(b"x" * 11)
        with pytest.raises(disk.DiskRefused, match="at most 10"):
            disk.read_file(above, ("big",), most_bytes=10)


def test_a_write_that_fails_leaves_nothing_behind(root: Path) -> None:
    with disk.top(root) as above, pytest.raises(OSError, match="directory"):
        disk.write_file(above, ("a",), b"x")
    assert [path.name for path in root.iterdir()] == ["a"]


def test_what_a_dead_writer_left_behind_is_replaced(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("threading.get_ident", lambda: 7)
    (root / f".turngate-{os.getpid()}-7").write_text("left")
    with disk.top(root) as above:
        disk.write_file(above, ("x", "y"), b"new")
        disk.write_file(above, ("z",), b"new")
    assert sorted(path.name for path in root.iterdir()) == ["a", "x", "z"]
