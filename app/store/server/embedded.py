"""The embedded Postgres: one server per data directory, shared by every process that uses it.

Nothing is written down about who uses it; three locks of the kernel say it, and a lock vanishes
with its process however that ends:

* `postgres.lock`, exclusive: held while a server is started or stopped, or its users are counted;
* `postgres.users`, shared: held by every user for as long as it uses the server;
* the cluster's folder, exclusive: inherited by the server and all its processes, so it is free
  exactly when nothing of it runs. No pid is ever trusted without it.

The first user starts the server, the last one stops it, and the keeper stops it when the last one
was killed. Linux only (`/proc`); elsewhere name a database of your own.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self
from urllib.parse import quote

from app.errors import StoreUnavailable
from app.store.server.embedded_host import (
    PORT,
    SOCKET_NAME,
    Account,
    account_for,
    binaries_for,
    create_cluster,
    installed_wheel,
    socket_folder,
)
from app.store.server.embedded_keeper import STOP_SECONDS, Task, locked

if TYPE_CHECKING:
    from collections.abc import Iterator

DATABASE = "turngate"
START_SECONDS = 60
LOG_BYTES = 8 << 20

_KEEPER = Path(__file__).with_name("embedded_keeper.py")
_POLL_SECONDS = 0.01
_SETTINGS = {
    "listen_addresses": "",
    "unix_socket_permissions": "0700",
    "max_connections": "200",
    "shared_buffers": "256MB",
    "max_wal_size": "1GB",
    "checkpoint_timeout": "15min",
    # The queue turns over its few rows all the time, and is read past those that are dead.
    "autovacuum_naptime": "10s",
    "random_page_cost": "1.1",
    "jit": "off",
    # Parallel queries need more of /dev/shm than a container has.
    "max_parallel_workers_per_gather": "0",
    "fsync": "on",
    "synchronous_commit": "on",
    "timezone": "UTC",
    "log_timezone": "UTC",
    # Statements and the details of errors hold arguments, which no log may show.
    "log_min_error_statement": "panic",
    "log_error_verbosity": "terse",
    "log_checkpoints": "off",
}


class EmbeddedPostgres:
    """One process's use of the server; made by `start`, ended by `stop` or with the process."""

    def __init__(self, data_dir: Path, *, users: int, socket: Path) -> None:
        # The port is named since drivers would else take it from PGPORT.
        self.dsn = f"postgresql://postgres@/{DATABASE}?host={quote(str(socket))}&port={PORT}"
        self._data_dir = data_dir
        self._users: int | None = users

    @classmethod
    def start(cls, data_dir: Path) -> Self:
        """Use the server of `data_dir`, starting it if it does not run; blocks.

        Raises `StoreUnavailable` with what Postgres or the system said.
        """
        if not Path("/proc/self/fd").exists():
            raise StoreUnavailable("the embedded Postgres needs Linux; name a database of your own")
        try:
            data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
            return cls._join(data_dir.resolve())
        except OSError as error:
            raise StoreUnavailable(f"no embedded Postgres in {data_dir}: {error}") from error

    @classmethod
    def _join(cls, data_dir: Path) -> Self:
        with _mutex(data_dir):
            users = _open_lock(data_dir / "postgres.users")
            try:
                fcntl.flock(users, fcntl.LOCK_SH)
                return cls(data_dir, users=users, socket=_running(data_dir).socket)
            except BaseException:
                os.close(users)
                raise

    def stop(self) -> None:
        """Use the server no more; blocks until it has ended if no other process uses it.

        Raises `StoreUnavailable` when it does not end in time.
        """
        users, self._users = self._users, None
        if users is None:
            return
        try:
            with _mutex(self._data_dir):
                if locked(users):
                    _end(self._data_dir)
        finally:
            os.close(users)


def is_used(data_dir: Path) -> bool:
    """Whether some process uses the server of `data_dir` just now."""
    path = data_dir / "postgres.users"
    if not path.exists():
        return False
    with _mutex(data_dir):
        users = _open_lock(path)
        try:
            return not locked(users)
        finally:
            os.close(users)


@dataclass(frozen=True, slots=True)
class _Postmaster:
    """What a living server says about itself in `postmaster.pid`."""

    pid: int
    socket: Path
    is_ready: bool

    @classmethod
    def of(cls, data_dir: Path) -> _Postmaster | None:
        """The one of `data_dir`; None while there is none, or just a stale file."""
        try:
            lines = (data_dir / "postgres" / "postmaster.pid").read_text().splitlines()
            pid = int(lines[0])
            found = cls(pid, Path(lines[4]), is_ready=lines[7].strip() == "ready")
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
        except (OSError, ValueError, IndexError):
            return None
        # Pids are used again, and a zombie's command line is empty.
        return found if os.fsencode(_mark(data_dir)) in command.split(b"\0") else None


def _running(data_dir: Path) -> _Postmaster:
    """The server, adopted or started; the caller holds the mutex and is counted as a user."""
    cluster = data_dir / "postgres"
    account = account_for(cluster)
    if not cluster.exists():
        create_cluster(cluster, account, binaries_for(account, installed_wheel()))
    launched = False
    for _ in _polls(START_SECONDS):
        with _folder(cluster) as descriptor:
            if locked(descriptor):
                if launched:
                    break
                _launch(data_dir, account, descriptor)
                launched = True
            elif (postmaster := _Postmaster.of(data_dir)) and postmaster.is_ready:
                return postmaster
    log = data_dir / "postgres.log"
    said = log.read_text(errors="replace").splitlines()[-5:] if log.exists() else []
    raise StoreUnavailable(f"Postgres in {cluster} did not get ready: {' | '.join(said)}")


def _launch(data_dir: Path, account: Account, descriptor: int) -> None:
    """Start the keeper with the locked folder. Whatever an earlier server left is stale now."""
    cluster = data_dir / "postgres"
    socket = socket_folder(cluster, account)
    for stale in (cluster / "postmaster.pid", socket / SOCKET_NAME, socket / f"{SOCKET_NAME}.lock"):
        stale.unlink(missing_ok=True)
    program = binaries_for(account, installed_wheel()) / "postgres"
    command = [str(program), "-D", f"/proc/self/fd/{descriptor}"]
    settings = [f"{name}={value}" for name, value in _SETTINGS.items()]
    for setting in (*settings, f"unix_socket_directories={socket}", _mark(data_dir)):
        command += ["-c", setting]
    task = Task(cluster=descriptor, socket=str(socket), account=account.switch, command=command)
    with _open_log(data_dir) as log:
        subprocess.run(
            [sys.executable, "-I", "-S", _KEEPER, str(data_dir)],
            check=False,  # It is seen at the lock, which is free then.
            input=json.dumps(task).encode(),
            stdout=log,
            stderr=log,
            cwd="/",
            umask=0o077,
            pass_fds=[descriptor],
        )


def _end(data_dir: Path) -> None:
    """End the server gently, then without a checkpoint; the caller holds both locks."""
    cluster = data_dir / "postgres"
    for number in (signal.SIGINT, signal.SIGQUIT):
        signalled: _Postmaster | None = None
        for _ in _polls(STOP_SECONDS):
            with _folder(cluster) as descriptor:
                if locked(descriptor):
                    return
            # It may be on its way up again after a crash: then its pid comes later.
            if not signalled and (signalled := _Postmaster.of(data_dir)):
                with suppress(ProcessLookupError):
                    os.kill(signalled.pid, number)
    raise StoreUnavailable(f"Postgres in {cluster} did not end within {2 * STOP_SECONDS} s")


def _mark(data_dir: Path) -> str:
    """The setting that shows in the server's command line whose it is."""
    return f"turngate.data_dir={data_dir}"


def _polls(seconds: float) -> Iterator[None]:
    """Let the caller look again and again: waiting for a lock itself knows no time limit."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        yield
        time.sleep(_POLL_SECONDS)


@contextmanager
def _mutex(data_dir: Path) -> Iterator[None]:
    descriptor = _open_lock(data_dir / "postgres.lock")
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


@contextmanager
def _folder(path: Path) -> Iterator[int]:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _open_lock(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)


@contextmanager
def _open_log(data_dir: Path) -> Iterator[int]:
    """The server's log; one that has grown too long becomes the one before."""
    path = data_dir / "postgres.log"
    with suppress(FileNotFoundError):
        if path.stat().st_size > LOG_BYTES:
            path.rename(path.with_suffix(".log.1"))
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW
    descriptor = os.open(path, flags, 0o600)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
