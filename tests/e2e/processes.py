"""Processes of the command line as tests run them: with settings of their own, in their own folder.

Settings reach a process through `env`, for the tests read no environment either.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

COMMAND = (sys.executable, "-m", "app.cli")
# Starts a program that is not measured: what is takes two thirds longer to start.
UNMEASURED = ("env", "-u", "COVERAGE_PROCESS_CONFIG")
END_S = 60


@dataclass(frozen=True, slots=True)
class Place:
    """A folder in which commands run, and the settings they see beside it.

    Nothing of it is measured but where the tests are about the commands.
    """

    folder: Path
    settings: tuple[str, ...] = ()
    program: tuple[str, ...] = COMMAND
    is_measured: bool = False

    @property
    def data(self) -> Path:
        """The data directory of the commands."""
        return self.folder / "data"

    def command(self, *words: str) -> list[str]:
        """The words of a whole command line."""
        return ["env", f"TURNGATE_DATA_DIR={self.data}", *self.settings, *self.program, *words]

    def _measured(self, *words: str) -> list[str]:
        return [*(() if self.is_measured else UNMEASURED), *self.command(*words)]

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run a command to its end."""
        return self.run_words(self._measured(*words))

    def run_words(self, words: list[str]) -> subprocess.CompletedProcess[str]:
        """Run a whole command line to its end."""
        return subprocess.run(
            words,
            cwd=self.folder,
            capture_output=True,
            text=True,
            check=False,
            timeout=END_S,
        )

    def start(self, *words: str) -> subprocess.Popen[str]:
        """Start a command; what it says is read by `ended`."""
        return subprocess.Popen(
            self._measured(*words),
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def token(
        self, scope: str, *, tenant: str = "acme", sub: str = "alice", roles: str = ""
    ) -> str:
        """A token of the development issuer of this place."""
        words = ["--tenant", tenant, "--sub", sub, "--scope", scope, "--roles", roles]
        done = self.run("token", *words)
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()[-1]

    def processes(self) -> list[str]:
        """The command lines that name this folder: what is still running here."""
        found = []
        for each in Path("/proc").glob("[0-9]*/cmdline"):
            with suppress(OSError):
                line = each.read_bytes().replace(b"\0", b" ").decode(errors="replace")
                if str(self.folder) in line:
                    found.append(line)
        return found


@contextmanager
def serving(place: Place, *flags: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """A server on a free port, told by its address; it ends with the block at the latest."""
    process = place.start("serve", "--port", "0", *flags)
    try:
        yield _greeted(process), process
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        process.communicate(timeout=END_S)


def _greeted(process: subprocess.Popen[str]) -> str:
    """The address from the first line, printed once requests are taken."""
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line.startswith("Turngate serves on "):
        raise AssertionError(process.communicate(timeout=END_S)[1])
    return line.split()[-1]
