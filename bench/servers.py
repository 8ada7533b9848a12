"""The servers under the bench, each a process: Turngate on its own database, and the bare one."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from app.cli.issuing import issue
from app.cli.sockets import free_port
from app.service.access.development import TokenOrder
from app.settings import Settings
from bench.wire import Address, BenchFailed, Http

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

TENANT = "bench"
SUB = "alice"
SCOPES = (
    *("agents:write", "agents:read", "runs:write", "runs:read"),
    *("approvals:read", "approvals:decide", "keys:write"),
    *("skills:write", "artifacts:write"),
)
READY_S = 60.0
_POLL_S = 0.02
_SETTINGS = ("TURNGATE_SOCKETS=10000", "TURNGATE_SOCKETS_PER_PRINCIPAL=10000")


@dataclass(frozen=True, slots=True)
class Server:
    """A running server, and the process that it is."""

    address: Address
    pid: int

    def resident_bytes(self) -> int:
        """The memory of the process, that of the database left out."""
        with open(f"/proc/{self.pid}/status") as status:  # noqa: PTH123 - a pseudo file
            line = next(each for each in status if each.startswith("VmRSS:"))
        return int(line.split()[1]) * 1024


@asynccontextmanager
async def turngate(data_dir: Path) -> AsyncIterator[Server]:
    """Turngate on an embedded Postgres in `data_dir`."""
    port = free_port("127.0.0.1", 0)
    settings = Settings(data_dir=data_dir)
    token = issue(settings, TokenOrder(TENANT, SUB, SCOPES))
    variables = (f"TURNGATE_DATA_DIR={data_dir}", *_SETTINGS)
    command = ("env", *variables, sys.executable, "-m", "app.cli", "serve", "--port", str(port))
    log = data_dir / "bench-serve.log"
    with _process(command, log) as process:
        server = Server(Address("127.0.0.1", port, token), process.pid)
        await _await_ready(server, process, log)
        yield server


@asynccontextmanager
async def bare(frames: Path) -> AsyncIterator[Server]:
    """The baseline server, playing the frames of that file."""
    port = free_port("127.0.0.1", 0)
    command = (sys.executable, "-m", "bench.bare", str(port), str(frames))
    log = frames.with_suffix(".log")
    with _process(command, log) as process:
        server = Server(Address("127.0.0.1", port), process.pid)
        await _await_ready(server, process, log)
        yield server


@contextmanager
def _process(command: tuple[str, ...], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output)
    try:
        yield process
    finally:
        process.terminate()
        process.wait(READY_S)


async def _await_ready(server: Server, process: subprocess.Popen[bytes], log: Path) -> None:
    async with asyncio.timeout(READY_S):
        while process.poll() is None:
            try:
                http = await Http.connect(server.address)
            except OSError:
                await asyncio.sleep(_POLL_S)
            else:
                await http.close()
                return
    raise _ended(log)


def _ended(log: Path) -> BenchFailed:
    return BenchFailed(f"the server ended before it was ready: {log.read_text()[-2000:]}")
