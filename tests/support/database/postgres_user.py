"""Another process that uses the embedded Postgres, and a look at what the machine still runs."""

from __future__ import annotations

import fcntl
import os
import select
import signal
import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path
from typing import Self

ROOT = Path(__file__).parents[3]
PACKAGES = sysconfig.get_path("purelib")
PUBLIC_PYTHON = "/usr/bin/python3"  # The one that runs us may lie in somebody's home.
PROGRAM = """
import sys
from pathlib import Path
from app.store.server.embedded import EmbeddedPostgres
server = EmbeddedPostgres.start(Path(sys.argv[1]))
print(server.dsn, flush=True)
sys.stdin.readline()
server.stop()
"""


class PostgresUser:
    """A process that uses the server of a data directory until it is told to leave or killed."""

    def __init__(self, data_dir: Path, *, uid: int | None = None) -> None:
        python = sys.executable if uid is None else PUBLIC_PYTHON
        self._process = subprocess.Popen(
            [python, "-B", "-c", PROGRAM, str(data_dir)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env={"PYTHONPATH": PACKAGES},
            user=uid,
            group=uid,
            extra_groups=None if uid is None else [],
        )

    def dsn(self) -> str:
        """Wait until the server can be used."""
        assert self._process.stdout
        return self._process.stdout.readline().strip()

    def leave(self) -> int:
        """Let it stop; its exit status."""
        self._process.communicate("\n")
        return self._process.returncode

    def kill(self) -> None:
        """End it without letting it say so."""
        self._process.kill()
        self._process.communicate()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.returncode is None:
            self.kill()


@dataclass(frozen=True, slots=True)
class Postmaster:
    """What `postmaster.pid` says, as tools from outside read it."""

    pid: int
    port: int
    socket: Path

    @property
    def keeper(self) -> int:
        """The process that started it."""
        return int(Path(f"/proc/{self.pid}/stat").read_text().split(") ")[1].split()[1])

    @property
    def uid(self) -> int:
        """Whom it runs as."""
        return Path(f"/proc/{self.pid}").stat().st_uid

    @classmethod
    def of(cls, data_dir: Path) -> Self:
        """Read the one file below the data directory."""
        (file,) = data_dir.rglob("postmaster.pid")
        lines = file.read_text().splitlines()
        return cls(int(lines[0]), int(lines[3]), Path(lines[4]))


def can_run_as(uid: int) -> bool:
    """Whether we may become that user, who then finds a Python, our sources and our packages."""
    if os.geteuid() != 0 or not Path(PUBLIC_PYTHON).exists():
        return False
    tried = subprocess.run(
        [PUBLIC_PYTHON, "-B", "-c", "import app.store.server.embedded as e; e.installed_wheel()"],
        capture_output=True,
        check=False,
        cwd=ROOT,
        env={"PYTHONPATH": PACKAGES},
        user=uid,
        group=uid,
        extra_groups=[],
    )
    return tried.returncode == 0


def kill(pid: int) -> None:
    """Kill any process, not only a child, and wait until it is dead."""
    process = os.pidfd_open(pid)
    signal.pidfd_send_signal(process, signal.SIGKILL)
    select.select([process], [], [])
    os.close(process)


def wait_for_end(data_dir: Path) -> None:
    """Block until nothing of the server runs: its lock on the cluster's folder falls then."""
    folder = os.open(data_dir / "postgres", os.O_RDONLY)
    fcntl.flock(folder, fcntl.LOCK_EX)
    os.close(folder)


def processes_of(data_dir: Path) -> list[str]:
    """The command lines of all processes that name the data directory."""
    found = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = file.read_text().replace("\0", " ")
        except OSError:
            continue
        if str(data_dir) in line:
            found.append(line)
    return found
