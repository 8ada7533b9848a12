"""Commands in a sandbox of bubblewrap: their own processes, no network, one folder to write.

- Namespaces of their own for everything, with no way to make more; no capability; no right to gain
  any. Started by root, bubblewrap itself runs as `nobody`.
- Of the disk they see `/usr`, read-only, and the place's workspace; of the environment, nothing.
- They die with bubblewrap, which is killed when the call ends for whatever reason. The command is
  the first process of its namespace: when bubblewrap has seen it end, the kernel has ended all.

That a network is out of reach is not proven by any of this, so the tool requires egress all the
same (turn.md 5.2). Memory is bounded by process and number of processes, not as a whole.
"""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from app.tools.sandbox import disk
from app.tools.sandbox.shell import COMMAND, MAX_ENTRIES, NoShell, Ran, ShellFailed, ShellPlace
from app.tools.sandbox.workspace import MAX_FILE_BYTES, MAX_WORKSPACE_BYTES

if TYPE_CHECKING:
    from asyncio.subprocess import Process

    from app.tools.sandbox.shell import ShellRunner

MAX_OUTPUT_BYTES: Final = 1024 * 1024
SANDBOXES: Final = 8
PROBE_S: Final = 5.0
WATCH_S: Final = 0.25
FREE_BYTES: Final = 512 * 1024 * 1024
NOBODY: Final = 65534

_PATHS: Final = (Path("/usr/bin/bwrap"), Path("/usr/local/bin/bwrap"))
_SETPRIV: Final = ("/usr/bin/setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups")
# Inside of the sandbox, where each is new and of the command alone.
_SCRATCH: Final = ("/dev/shm", "/tmp")  # noqa: S108 - see above
_SCRATCH_BYTES: Final = str(64 * 1024 * 1024)
_LIMITS: Final = (
    "--core=0",
    "--cpu=60",
    f"--fsize={MAX_FILE_BYTES}",
    "--nofile=256",
    "--nproc=64",
    f"--as={2 * 1024 * 1024 * 1024}",
)
_CHUNK: Final = 64 * 1024


async def find_shell() -> ShellRunner:
    """The runner of this machine, tried out; one that says why not where there is none."""
    program = next((path for path in _PATHS if path.exists()), None)
    if program is None:
        return NoShell("bubblewrap is not installed")
    runner = Bubblewrap(program)
    place = ShellPlace.made(runner.owner)
    try:
        place.ready("exit 0")
        async with asyncio.timeout(PROBE_S):
            tried = await runner.run(place)
    except (OSError, TimeoutError, ShellFailed) as error:
        reason = str(error) or type(error).__name__
        return NoShell(f"bubblewrap does not work here: {reason}")
    finally:
        await place.remove()
    if tried.exit_code == 0:
        return runner
    first_line = tried.output.partition("\n")[0][:200]
    return NoShell(f"bubblewrap does not work here: {first_line}")


class Bubblewrap:
    """Runs commands with the bubblewrap at `program`, so many at a time."""

    why_not: str | None = None

    def __init__(self, program: Path) -> None:
        self._program = program
        self._free = asyncio.Semaphore(SANDBOXES)

    @property
    def owner(self) -> int | None:
        """Root gives the place to the user that the sandbox then runs as."""
        return NOBODY if os.geteuid() == 0 else None

    async def run(self, place: ShellPlace, /) -> Ran:
        """Run the place's command to its end. Raises ShellFailed. Cancelling kills it."""
        async with self._free:
            process = await asyncio.create_subprocess_exec(
                *arguments(self._program, place, owner=self.owner),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
                env={},
                cwd="/",
                start_new_session=True,
            )
            try:
                return await _watched(process, place)
            finally:
                await _end(process)


def arguments(program: Path, place: ShellPlace, *, owner: int | None) -> list[str]:
    """The command line. The command itself is in a file, so that no list of processes shows it."""
    return [
        *(() if owner is None else (*_SETPRIV, "--")),
        *(str(program), "--unshare-all", "--unshare-user", "--disable-userns"),
        *("--die-with-parent", "--as-pid-1", "--new-session", "--cap-drop", "ALL", "--clearenv"),
        *("--setenv", "PATH", "/usr/local/bin:/usr/bin:/bin"),
        *("--setenv", "HOME", "/workspace", "--setenv", "LANG", "C.UTF-8"),
        *("--hostname", "sandbox"),
        *("--ro-bind", "/usr", "/usr"),
        *(part for name in ("/bin", "/lib", "/lib64") for part in ("--ro-bind-try", name, name)),
        *("--ro-bind-try", "/etc/alternatives", "/etc/alternatives"),
        *("--ro-bind-try", "/etc/ld.so.cache", "/etc/ld.so.cache"),
        *("--proc", "/proc", "--dev", "/dev"),
        *(part for name in _SCRATCH for part in ("--size", _SCRATCH_BYTES, "--tmpfs", name)),
        *("--remount-ro", "/dev"),
        *("--ro-bind", str(place.path / COMMAND), "/command"),
        *("--bind", str(place.workspace), "/workspace", "--chdir", "/workspace"),
        *("--remount-ro", "/", "--"),
        *("/usr/bin/prlimit", *_LIMITS, "--", "/bin/sh", "/command"),
    ]


async def _watched(process: Process, place: ShellPlace) -> Ran:
    """The command's end, unless its files outgrow their bounds before. Raises ShellFailed."""
    try:
        async with asyncio.TaskGroup() as beside:
            watching = beside.create_task(_watch(place))
            output = await _output(process)
            exit_code = await process.wait()
            watching.cancel()
    except BaseExceptionGroup as failed_group:
        raise failed_group.exceptions[0] from None
    return Ran(exit_code, output)


async def _output(process: Process) -> str:
    """What is printed, up to a bound; the rest is read and forgotten, or its writer would wait."""
    if process.stdout is None:
        raise ShellFailed("the command has no output")
    kept = bytearray()
    length = 0
    while chunk := await process.stdout.read(_CHUNK):
        length += len(chunk)
        kept += chunk[: MAX_OUTPUT_BYTES - len(kept)]
    text = kept.decode(errors="replace")
    return text if length == len(kept) else f"{text}\n[cut: {length} bytes in all]"


async def _watch(place: ShellPlace) -> None:
    """Look at the files until cancelled. Raises ShellFailed once there is too much of them."""
    while True:
        if (excess := await asyncio.to_thread(_excess, place.workspace)) is not None:
            raise ShellFailed(f"the command was ended: {excess}")
        await asyncio.sleep(WATCH_S)


def _excess(workspace: Path) -> str | None:
    try:
        with disk.top(workspace) as above:
            found = disk.files_below(above, most=MAX_ENTRIES)
            disk_left = os.fstatvfs(above)
    except disk.DiskRefused as error:
        return str(error)
    except OSError as error:
        return f"its files cannot be watched: {error.strerror}"
    if sum(file.size_bytes for file in found) > MAX_WORKSPACE_BYTES:
        return f"all files together have at most {MAX_WORKSPACE_BYTES} bytes"
    # Files that are open and have no name any more are seen by the disk alone.
    if disk_left.f_bavail * disk_left.f_frsize < FREE_BYTES:
        return "the disk is nearly full"
    return None


async def _end(process: Process) -> None:
    """Kill what still runs, and wait for it. Everything in the sandbox dies with its parent."""
    if process.returncode is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    await process.wait()
