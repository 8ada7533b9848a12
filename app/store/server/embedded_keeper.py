"""The keeper: the small process that is the parent of one embedded Postgres server.

It starts the server, reaps it, starts it again when it was killed, and ends it once every process
that used it is gone without having said so (kill -9). It is a script: `app.store.server.embedded`
runs this file with the bare interpreter, so it imports the standard library only and starts at
once. Its argument is the data directory, its input the `Task` as JSON.

Rules: whether a server is still used is asked only while holding `postgres.lock`, like everywhere
else; and the keeper keeps the cluster's descriptor open, whose lock says that something still runs.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TypedDict

STOP_SECONDS = 30
LOOK_EVERY_SECONDS = 1.5
IDLE_LOOKS = 2  # A process killed and started again at once finds its server still running.
RESTARTS = 50
RESTART_SECONDS = 0.2


class Task(TypedDict):
    """The open cluster's descriptor, the socket's folder, whom to become, and the command."""

    cluster: int
    socket: str
    account: tuple[int | None, int | None]
    command: list[str]


def locked(descriptor: int) -> bool:
    """Take the exclusive lock if nobody else has any; False otherwise."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def launched(task: Task) -> subprocess.Popen[bytes]:
    """The server, as a child that has the cluster's folder open."""
    uid, gid = task["account"]
    return subprocess.Popen(
        task["command"],
        stdin=subprocess.DEVNULL,
        env={"PATH": os.defpath, "LC_ALL": "C"},
        pass_fds=[task["cluster"]],
        user=uid,
        group=gid,
        extra_groups=None if uid is None else [],
    )


def end(server: subprocess.Popen[bytes]) -> None:
    """End the server gently, then without a checkpoint."""
    server.send_signal(signal.SIGINT)
    try:
        server.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        server.send_signal(signal.SIGQUIT)
        server.wait()


def watch(server: subprocess.Popen[bytes], mutex: int, users: int) -> None:
    """Return when the server has ended, by itself or because nobody used it any more."""
    idle_looks = 0
    while server.poll() is None:
        if signal.sigtimedwait({signal.SIGCHLD}, LOOK_EVERY_SECONDS) or not locked(mutex):
            continue
        idle_looks = idle_looks + 1 if locked(users) else 0
        fcntl.flock(users, fcntl.LOCK_UN)
        if idle_looks == IDLE_LOOKS:
            end(server)  # The mutex stays ours: a start waits until this server is gone.
        fcntl.flock(mutex, fcntl.LOCK_UN)


def keep(task: Task, mutex: int, users: int) -> None:
    """Run the server until it ends on purpose, or cannot be started."""
    restarts = 0
    while True:
        server = launched(task)
        watch(server, mutex, users)
        if server.returncode < 0:
            restarts = RESTARTS  # Killed. Its orphans may refuse the next ones for a moment.
        if server.returncode == 0 or not restarts:
            return
        restarts -= 1
        time.sleep(RESTART_SECONDS)


def main() -> None:
    """Leave the starter, then keep the server."""
    data_dir = Path(sys.argv[1])
    task: Task = json.load(sys.stdin)
    if os.fork():
        return
    os.setsid()
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    mutex = os.open(data_dir / "postgres.lock", os.O_RDWR)
    users = os.open(data_dir / "postgres.users", os.O_RDWR)
    keep(task, mutex, users)
    with suppress(OSError):
        Path(task["socket"]).rmdir()  # A private folder is empty now; the cluster never is.


if __name__ == "__main__":
    main()
