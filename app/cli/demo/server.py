"""The processes of the demo: `turngate serve` as anybody starts it, and other commands."""

from __future__ import annotations

import subprocess
import sys
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from app.cli.greeting import SERVES
from app.cli.sockets import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from app.service.clock import SystemClock
    from app.settings import Settings

HOST: Final = "127.0.0.1"
PORT: Final = 8000
READY_S: Final = 60.0
STOP_S: Final = 60.0
_POLL_S: Final = 0.02


class DemoFailed(Exception):
    """Something did not go as the demo expects; the message says what."""


@dataclass(frozen=True, slots=True)
class Served:
    """A server that was started, and takes requests after `await_ready`."""

    process: subprocess.Popen[bytes]
    log: Path

    def await_ready(self, clock: SystemClock) -> str:
        """Its base address, once it is ready. Raises DemoFailed with the end of its log.

        It is asked for in the log: whoever answers at a port may be somebody else.
        """
        end = clock.monotonic() + READY_S
        while clock.monotonic() < end and self.process.poll() is None:
            whole_lines = self.log.read_text(errors="replace").split("\n")[:-1]
            for line in whole_lines:
                if line.startswith(SERVES):
                    return line.removeprefix(SERVES)
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(_POLL_S)
        said = self.log.read_text(errors="replace").splitlines()[-5:]
        raise DemoFailed("\n".join(["the server did not get ready:", *said]))


@contextmanager
def served(settings: Settings, *, allow_host: str, keep: bool, first: bool) -> Iterator[Served]:
    """Run a server for the block, and after it as well with `keep`.

    The `first` of several demos takes the port that everybody knows, if it is free.
    """
    port = free_port(HOST, PORT) if first else 0
    log = settings.data_dir / "demo-serve.log"
    hosts = ",".join((*settings.http_allow_hosts, allow_host))
    words = ("serve", "--port", str(port), *(() if keep else ("--leash",)))
    command = _command(settings, *words, setting=f"TURNGATE_HTTP_ALLOW_HOSTS={hosts}")
    process = _start(command, log, stays=keep)
    stays = False
    try:
        yield Served(process, log)
        stays = keep
    finally:
        if not stays:
            _stop(process)


def run_command(settings: Settings, *words: str) -> subprocess.CompletedProcess[str]:
    """Run another command of this program to its end."""
    command = _command(settings, *words)
    return subprocess.run(command, capture_output=True, text=True, check=False)


def _command(settings: Settings, *words: str, setting: str = "") -> list[str]:
    """A command line; `env` brings the settings, since nothing else reads the environment."""
    variables = [f"TURNGATE_DATA_DIR={settings.data_dir}", *([setting] if setting else [])]
    return ["env", *variables, sys.executable, "-m", "app.cli", *words]


def _start(command: Sequence[str], log: Path, *, stays: bool) -> subprocess.Popen[bytes]:
    """Start it, to end with us, or to outlive us and the terminal's Ctrl-C and closing.

    Its input is a pipe of ours that nothing is written to: it ends when we do, however we end.
    """
    with log.open("wb") as output:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL if stays else subprocess.PIPE,
            stdout=output,
            stderr=output,
            start_new_session=stays,
        )


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    if process.stdin is not None:
        process.stdin.close()
    try:
        process.wait(STOP_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
