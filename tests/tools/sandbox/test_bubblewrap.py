"""The sandbox itself, where bubblewrap works: what a command sees, and that nothing outlives it."""

from __future__ import annotations

import asyncio
import os
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

import pytest

from app.tools.sandbox import bubblewrap
from app.tools.sandbox.bubblewrap import Bubblewrap, arguments, find_shell
from app.tools.sandbox.shell import NoShell, Ran, ShellFailed, ShellPlace

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from app.tools.sandbox.shell import ShellRunner

BWRAP: Final = Path("/usr/bin/bwrap")
FOUND: Final = asyncio.run(find_shell())
works = pytest.mark.skipif(FOUND.why_not is not None, reason=f"no sandbox: {FOUND.why_not}")


@asynccontextmanager
async def a_place(runner: ShellRunner, command: str) -> AsyncIterator[ShellPlace]:
    place = ShellPlace.made(runner.owner)
    try:
        place.put("in.txt", b"in")
        place.ready(command)
        yield place
    finally:
        await place.remove()
    assert not place.path.exists()


async def ran(command: str) -> Ran:
    runner = Bubblewrap(BWRAP)
    async with a_place(runner, command) as place:
        return await runner.run(place)


@works
async def test_a_command_has_its_exit_code_and_both_outputs_in_order() -> None:
    assert await ran("cat in.txt; echo err >&2; echo out; exit 7") == Ran(7, "inerr\nout\n")


@works
async def test_it_sees_no_environment_no_secret_and_no_other_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TURNGATE_OPENAI_API_KEY", "sk-hidden")
    told = (await ran("env; ls /; cat /proc/[0-9]*/environ; id -u; pwd")).output
    assert "sk-hidden" not in told
    names = {line.partition("=")[0] for line in told.splitlines() if "=" in line}
    assert names <= {"PATH", "HOME", "LANG", "PWD", "SHLVL", "_", "OLDPWD"}
    folders = {"root", "home", "var", "tmp", "workspace", "opt", "srv", "mnt", "run"}
    assert folders & set(told.split()) == {"tmp", "workspace"}
    assert str(os.getpid()) not in (await ran("ls /proc")).output.split()


@works
async def test_it_is_nobody_outside_as_well_and_holds_no_capability() -> None:
    told = (await ran("grep -E '^(Uid|CapEff|CapBnd|NoNewPrivs)' /proc/self/status")).output
    lines = dict(line.split(":\t", 1) for line in told.splitlines())
    assert set(lines["Uid"].split()) == {str(os.geteuid() or 65534)}
    assert lines["CapEff"] == lines["CapBnd"] == "0" * 16
    assert lines["NoNewPrivs"] == "1"


@works
@pytest.mark.parametrize(
    "command",
    [
        "touch /x",
        "touch /usr/x",
        "touch /dev/x",
        "touch /command",
        "unshare -U true",
        "mount -t tmpfs none /tmp",
        "head -c 70000000 /dev/zero > /tmp/big",
        "head -c 20000000 /dev/zero > big",
        "cat /proc/1/root/etc/passwd",
    ],
)
async def test_it_can_neither_write_elsewhere_nor_leave_nor_go_beyond_its_limits(
    command: str,
) -> None:
    assert (await ran(command)).exit_code != 0


@works
async def test_it_reaches_no_network_not_even_this_machine() -> None:
    server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    connect = f"import socket; socket.create_connection(('127.0.0.1', {port}), 2)"
    told = await ran(f'tail -n +3 /proc/net/dev | cut -d: -f1; /usr/bin/env python3 -c "{connect}"')
    server.close()
    assert told.output.split()[:1] == ["lo"]
    assert told.exit_code != 0


@works
async def test_much_output_is_cut_and_its_writer_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bubblewrap, "MAX_OUTPUT_BYTES", 10)
    told = await ran("head -c 300000 /dev/zero | tr '\\0' x; exit 4")
    assert told == Ran(4, "xxxxxxxxxx\n[cut: 300000 bytes in all]")


def alive(marker: str) -> list[str]:
    """The processes of this machine in whose command lines a text stands."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            line = (folder / "cmdline").read_bytes().decode(errors="replace")
        except OSError:
            continue
        if marker in line:
            found.append(folder.name)
    return found


@works
async def test_cancelling_kills_the_command_and_all_it_has_started() -> None:
    runner = Bubblewrap(BWRAP)
    spawn = "setsid sleep 7654321 & nohup sleep 7654321 & sleep 7654321 & wait"
    async with a_place(runner, spawn) as place:
        running = asyncio.ensure_future(runner.run(place))
        while len(alive("7654321")) < 3:  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.01)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        while alive("7654321"):  # noqa: ASYNC110 - the kernel tells nobody either
            await asyncio.sleep(0.01)


@works
async def test_what_a_command_leaves_running_ends_with_it() -> None:
    assert (await ran("setsid sleep 7654322 > /dev/null 2>&1 &")).exit_code == 0
    assert alive("7654322") == []


@works
async def test_a_command_whose_files_outgrow_their_bounds_is_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(bubblewrap, "MAX_ENTRIES", 50)
    monkeypatch.setattr(bubblewrap, "WATCH_S", 0.01)
    with pytest.raises(ShellFailed, match="too many files"):
        await ran("i=0; while :; do i=$((i+1)); : > f$i; done")
    monkeypatch.undo()
    monkeypatch.setattr(bubblewrap, "WATCH_S", 0.01)
    monkeypatch.setattr(bubblewrap, "MAX_WORKSPACE_BYTES", 1000)
    with pytest.raises(ShellFailed, match="at most 1000 bytes"):
        await ran("head -c 2000 /dev/zero > big; sleep 60")


@works
async def test_a_disk_that_fills_up_ends_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bubblewrap, "FREE_BYTES", 2**62)
    with pytest.raises(ShellFailed, match="nearly full"):
        await ran("sleep 60")


@works
async def test_a_tree_that_nobody_may_enter_is_removed_all_the_same() -> None:
    nest = "i=0; while [ $i -lt 60 ]; do mkdir d && cd d; i=$((i+1)); done"
    assert (await ran(f"mkdir -p a/b && chmod 000 a/b a; {nest}; chmod 000 .")).exit_code == 0


def test_the_command_itself_is_in_no_list_of_processes(tmp_path: Path) -> None:
    place = ShellPlace(tmp_path, None)
    plain = arguments(Path("/usr/bin/bwrap"), place, owner=None)
    assert plain[0] == "/usr/bin/bwrap"
    assert plain[-3:] == ["--", "/bin/sh", "/command"]
    at = plain.index("--bind")
    assert plain[at + 1 : at + 3] == [str(tmp_path / "workspace"), "/workspace"]
    assert {"--unshare-all", "--disable-userns", "--die-with-parent", "--clearenv"} <= set(plain)
    assert arguments(Path("/b"), place, owner=65534)[:4] == [
        "/usr/bin/setpriv",
        "--reuid=65534",
        "--regid=65534",
        "--clear-groups",
    ]


async def test_where_there_is_no_bubblewrap_the_reason_is_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(bubblewrap, "_PATHS", (tmp_path / "bwrap",))
    assert (await find_shell()).why_not == "bubblewrap is not installed"


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that anybody can enter, which `tmp_path` is not."""
    with TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


@pytest.mark.parametrize(
    ("script", "why_not"),
    [
        ("echo 'bwrap: no namespaces'; exit 1", "does not work here: bwrap: no namespaces"),
        ("exec sleep 60", "does not work here: TimeoutError"),
    ],
)
async def test_a_bubblewrap_that_does_not_work_says_so(
    monkeypatch: pytest.MonkeyPatch, open_folder: Path, script: str, why_not: str
) -> None:
    program = open_folder / "bwrap"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setattr(bubblewrap, "_PATHS", (program,))
    monkeypatch.setattr(bubblewrap, "PROBE_S", 0.5)
    found = await find_shell()
    assert isinstance(found, NoShell)
    assert why_not in (found.why_not or "")
