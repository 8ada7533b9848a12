"""The keeper's rules, driven in this process with small programs in the place of Postgres."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
from typing import TYPE_CHECKING

import pytest

from app.store.server import embedded_keeper
from app.store.server.embedded_keeper import Task, end, keep, watch

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.timeout(20)


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedded_keeper, "LOOK_EVERY_SECONDS", 0.01)
    monkeypatch.setattr(embedded_keeper, "RESTART_SECONDS", 0.01)
    monkeypatch.setattr(embedded_keeper, "RESTARTS", 3)


@pytest.fixture
def locks(tmp_path: Path) -> Iterator[tuple[int, int]]:
    """The keeper's own descriptors of mutex and users."""
    opened = [os.open(tmp_path / name, os.O_RDWR | os.O_CREAT) for name in ("mutex", "users")]
    yield opened[0], opened[1]
    for descriptor in opened:
        os.close(descriptor)


def shell(script: str, folder: Path) -> tuple[Task, int]:
    """A task whose every start adds a line to `starts`, then does what `script` says."""
    cluster = os.open(folder, os.O_RDONLY)
    command = ["/bin/sh", "-c", f"echo >> {folder}/starts; {script}"]
    task = Task(cluster=cluster, socket=str(folder), account=(None, None), command=command)
    return task, cluster


def starts(script: str, folder: Path, locks: tuple[int, int]) -> int:
    task, cluster = shell(script, folder)
    keep(task, *locks)
    os.close(cluster)
    return len((folder / "starts").read_text())


# Whoever runs the tests in the background may have them ignore these signals, and children inherit.
HEARING = ("/usr/bin/env", "--default-signal=INT,QUIT")


def test_a_server_that_ends_on_purpose_is_not_started_again(
    tmp_path: Path, locks: tuple[int, int]
) -> None:
    assert starts("exit 0", tmp_path, locks) == 1


def test_a_server_that_cannot_start_is_not_started_again(
    tmp_path: Path, locks: tuple[int, int]
) -> None:
    assert starts("exit 1", tmp_path, locks) == 1


def test_a_killed_server_is_started_again(tmp_path: Path, locks: tuple[int, int]) -> None:
    once = f"test -e {tmp_path}/killed && exit 0; touch {tmp_path}/killed; kill -9 $$"
    assert starts(once, tmp_path, locks) == 2


def test_restarts_after_a_kill_are_bounded(tmp_path: Path, locks: tuple[int, int]) -> None:
    refused = f"test -e {tmp_path}/killed && exit 1; touch {tmp_path}/killed; kill -9 $$"
    assert starts(refused, tmp_path, locks) == 1 + 3


def test_a_server_nobody_uses_is_interrupted(locks: tuple[int, int]) -> None:
    with subprocess.Popen([*HEARING, "/bin/sleep", "60"]) as server:
        watch(server, *locks)
        assert server.returncode == -signal.SIGINT


def test_a_server_somebody_uses_is_left_alone(tmp_path: Path, locks: tuple[int, int]) -> None:
    user = os.open(tmp_path / "users", os.O_RDWR)
    fcntl.flock(user, fcntl.LOCK_SH)
    with subprocess.Popen(["/bin/sleep", "0.2"]) as server:
        watch(server, *locks)
        assert server.returncode == 0
    os.close(user)


def test_users_are_not_counted_while_a_start_or_stop_is_under_way(
    tmp_path: Path, locks: tuple[int, int]
) -> None:
    starter = os.open(tmp_path / "mutex", os.O_RDWR)
    fcntl.flock(starter, fcntl.LOCK_EX)
    with subprocess.Popen(["/bin/sleep", "0.2"]) as server:
        watch(server, *locks)
        assert server.returncode == 0
    os.close(starter)


def test_a_server_deaf_to_a_gentle_end_is_made_to_quit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedded_keeper, "STOP_SECONDS", 0.05)
    deaf = [*HEARING, "/bin/sh", "-c", "trap '' INT; echo; exec sleep 60"]
    with subprocess.Popen(deaf, stdout=subprocess.PIPE) as server:
        assert server.stdout
        server.stdout.readline()
        end(server)
        assert server.returncode == -signal.SIGQUIT
