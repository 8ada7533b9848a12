"""`shell_exec` over a stand-in for the sandbox: what is copied, what is kept, under which tag."""

from __future__ import annotations

import asyncio
import os
import stat
import sys
import tempfile
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from app.policy.capability import Capability
from app.policy.consent import Consent
from app.policy.taint import Trust
from app.tools.builtin.shell_exec import shell_exec
from app.tools.executors.executor import ScopedExecutor
from app.tools.ports import FileRefused
from app.tools.registry import ToolRegistry
from app.tools.sandbox.shell import NoShell, Ran, ShellFailed, ShellPlace
from app.tools.sandbox.workspace import ConversationWorkspace
from tests.tools.played import FilesInMemory, FixedClock, invocation, result_of

if TYPE_CHECKING:
    from app.tools.sandbox.disk import DiskFile
    from app.turn.ports import ToolOutcome

Act = Callable[[Path], Awaitable[object] | None]


@dataclass
class PlayedShell:
    """Does to the copied files what a test says, in the place of a command."""

    act: Act = lambda _: None
    why_not: str | None = None
    owner: int | None = None
    places: list[Path] = field(default_factory=list)
    commands: list[str] = field(default_factory=list)

    async def run(self, place: ShellPlace, /) -> Ran:
        self.places.append(place.path)
        self.commands.append((place.path / "command").read_text())
        assert stat.S_IMODE(place.path.stat().st_mode) == 0o700
        if (waited := self.act(place.workspace)) is not None:
            await waited
        return Ran(3, "printed")


class Shell:
    """The tool on a workspace in memory."""

    def __init__(self, act: Act = lambda _: None, *, limit_s: float = 60.0) -> None:
        self.runner = PlayedShell(act)
        self.files = ConversationWorkspace(FilesInMemory(), "conv_1", clock=FixedClock())
        self.executor = ScopedExecutor(
            ToolRegistry([shell_exec(self.runner)]),
            ["shell_exec"],
            consent=[],
            workspace=self.files,
            call_limit_s=limit_s,
        )

    async def put(self, path: str, text: str, trust: Trust = Trust.UNSPECIFIED) -> None:
        await self.files.write(path, text.encode(), trust)

    async def call(self, command: str = "make", *, tainted: bool = False) -> ToolOutcome:
        call = invocation("shell_exec", {"command": command})
        return await self.executor.execute(replace(call, tainted=tainted))

    async def kept(self) -> dict[str, tuple[bytes, Trust]]:
        entries = await self.files.list()
        found = {entry.path: await self.files.read(entry.path) for entry in entries}
        return {path: file for path, file in found.items() if file is not None}


def names_below(place: Path) -> set[str]:
    return {str(path.relative_to(place)) for path in place.rglob("*") if path.is_file()}


def test_what_the_gate_knows_of_it() -> None:
    """F119: no session approval serves it."""
    tool = shell_exec(PlayedShell())
    assert tool.required_capabilities == {
        Capability.LOCAL_READ,
        Capability.LOCAL_WRITE,
        Capability.ARBITRARY_EGRESS,
    }
    assert tool.ingests_untrusted
    assert tool.consent is Consent.ASK
    assert (tool.idempotent, tool.is_session_approvable, tool.is_viable) == (False, False, True)


async def test_without_a_sandbox_it_is_not_viable_and_says_why() -> None:
    tool = shell_exec(NoShell("bubblewrap is not installed"))
    assert (tool.is_viable, tool.why_not) == (False, "bubblewrap is not installed")
    with pytest.raises(ShellFailed, match="not installed"):
        await NoShell("bubblewrap is not installed").run(ShellPlace(Path(), None))


async def test_a_command_gets_every_file_and_its_exit_code_and_output_are_the_result() -> None:
    seen: list[set[str]] = []
    shell = Shell(lambda place: seen.append(names_below(place)))
    await shell.put("a.txt", "a")
    await shell.put("src/deep/b.txt", "b")
    outcome = await shell.call("make all")
    assert result_of(outcome) == {"exit_code": 3, "output": "printed"}
    assert (seen, shell.runner.commands) == ([{"a.txt", "src/deep/b.txt"}], ["make all"])
    assert not shell.runner.places[0].exists()


async def test_new_changed_and_deleted_files_are_written_back_and_others_left_alone() -> None:
    def act(place: Path) -> None:
        (place / "new" / "x").parent.mkdir()
        (place / "new" / "x").write_text("x")
        (place / "changed").write_text("after")
        (place / "gone").unlink()

    shell = Shell(act)
    await shell.put("changed", "before", Trust.TRUSTED_USER)
    await shell.put("gone", "g")
    await shell.put("same", "s", Trust.TRUSTED_USER)
    await shell.call()
    assert await shell.kept() == {
        "changed": (b"after", Trust.TRUSTED_USER),
        "new/x": (b"x", Trust.TRUSTED_USER),
        "same": (b"s", Trust.TRUSTED_USER),
    }


@pytest.mark.parametrize(
    ("file", "tainted", "tag"),
    [
        (Trust.UNSPECIFIED, False, Trust.UNSPECIFIED),
        (Trust.QUARANTINED_CONTENT, False, Trust.QUARANTINED_CONTENT),
        (Trust.UNSPECIFIED, True, Trust.QUARANTINED_CONTENT),
    ],
)
async def test_what_is_written_carries_the_highest_tag_of_what_could_be_read(
    file: Trust, tainted: bool, tag: Trust
) -> None:
    def act(place: Path) -> None:
        (place / "out").write_text("o")

    shell = Shell(act)
    await shell.put("in", "i", file)
    await shell.call(tainted=tainted)
    assert (await shell.kept())["out"] == (b"o", tag)


async def test_links_and_pipes_are_not_kept_and_nothing_behind_a_link_is_read(
    tmp_path: Path,
) -> None:
    (tmp_path / "secret").write_text("hidden")

    def act(place: Path) -> None:
        (place / "link").symlink_to(tmp_path / "secret")
        (place / "folder").symlink_to(tmp_path)
        (place / "in").unlink()
        (place / "in").symlink_to(tmp_path / "secret")

    shell = Shell(act)
    await shell.put("in", "i")
    await shell.call()
    assert await shell.kept() == {}


async def test_files_that_no_workspace_could_hold_are_named() -> None:
    def act(place: Path) -> None:
        Path(str(place), b"\xff".decode("utf-8", "surrogateescape")).write_text("x")
        deep = place.joinpath(*(["d" * 200] * 6))
        deep.mkdir(parents=True)
        (deep / "f").write_text("x")
        (place / "fine").write_text("x")

    shell = Shell(act)
    outcome = await shell.call()
    assert "2 files could not be kept" in result_of(outcome)["output"]
    assert list(await shell.kept()) == ["fine"]


async def test_a_workspace_that_no_disk_can_hold_is_refused_before_anything_runs() -> None:
    shell = Shell()
    await shell.put("a", "file")
    await shell.put("a/b", "and folder")
    outcome = await shell.call()
    assert (outcome.code, shell.runner.commands) == ("tool_failed", [])
    assert set(await shell.kept()) == {"a", "a/b"}


async def test_too_deep_a_tree_is_refused_and_removed() -> None:
    def act(place: Path) -> None:
        place.joinpath(*(["d"] * 70)).mkdir(parents=True)

    shell = Shell(act)
    outcome = await shell.call()
    assert (outcome.code, "deep" in outcome.text) == ("tool_failed", True)
    assert not shell.runner.places[0].exists()


async def test_of_a_command_that_was_ended_nothing_is_kept() -> None:
    def act(place: Path) -> None:
        (place / "new").write_text("x")
        raise ShellFailed("the command was ended: too much")

    shell = Shell(act)
    outcome = await shell.call()
    assert outcome.code == "tool_failed"
    assert "too much; no change was kept" in outcome.text
    assert (await shell.kept(), shell.runner.places[0].exists()) == ({}, False)


async def test_of_a_command_out_of_time_nothing_is_kept_and_its_place_is_removed() -> None:
    async def act(place: Path) -> None:
        (place / "new").write_text("x")
        await asyncio.Event().wait()

    shell = Shell(act, limit_s=0.2)
    outcome = await shell.call()
    assert outcome.code == "tool_timeout"
    assert (await shell.kept(), shell.runner.places[0].exists()) == ({}, False)


async def test_a_full_workspace_takes_no_more(monkeypatch: Any) -> None:
    monkeypatch.setattr("app.tools.sandbox.shell.MAX_WORKSPACE_BYTES", 10)

    def act(place: Path) -> None:
        (place / "new").write_text("x" * 11)

    shell = Shell(act)
    outcome = await shell.call()
    assert (outcome.code, await shell.kept()) == ("tool_failed", {})


async def test_what_does_not_fit_as_a_whole_changes_nothing(monkeypatch: Any) -> None:
    monkeypatch.setattr("app.tools.sandbox.workspace.MAX_WORKSPACE_BYTES", 10)

    def act(place: Path) -> None:
        (place / "old").unlink()
        (place / "a").write_text("x" * 6)
        (place / "b").write_text("x" * 6)

    shell = Shell(act)
    await shell.put("old", "y")
    outcome = await shell.call()
    assert (outcome.code, "10 bytes" in outcome.text) == ("tool_failed", True)
    assert await shell.kept() == {"old": (b"y", Trust.UNSPECIFIED)}


async def test_a_file_that_cannot_be_read_back_keeps_the_others_from_being_kept(
    monkeypatch: Any,
) -> None:
    def act(place: Path) -> None:
        (place / "old").unlink()
        for name in "ab":
            (place / name).write_text("x")

    def read(place: ShellPlace, file: DiskFile) -> bytes:
        if file.path == "b":
            raise FileRefused("cut off")
        return b"x"

    monkeypatch.setattr(ShellPlace, "read", read)
    shell = Shell(act)
    await shell.put("old", "y")
    assert (await shell.call()).code == "tool_failed"
    assert await shell.kept() == {"old": (b"y", Trust.UNSPECIFIED)}


@pytest.fixture
def disk_of_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the places of this test are made, and no others."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def aged(path: Path) -> Path:
    """The folder as it is eleven minutes after its last change."""
    then = path.stat().st_mtime - 660
    os.utime(path, (then, then))
    return path


def inside(folder: Path) -> set[Path]:
    """What lies in the folder."""
    return set(folder.iterdir())


async def test_the_place_of_a_killed_process_is_removed_by_the_next_call(
    disk_of_places: Path,
) -> None:
    source = (
        "import os, signal, sys, tempfile\n"
        "from app.tools.sandbox.shell import ShellPlace\n"
        "tempfile.tempdir = sys.argv[1]\n"
        "place = ShellPlace.made(None)\n"
        "place.put('secret', b'x')\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", source, str(disk_of_places)
    )
    await process.wait()
    (left,) = inside(disk_of_places)
    assert (left / "workspace" / "secret").exists()
    aged(left)
    await Shell().call()
    assert inside(disk_of_places) == set()


async def test_a_place_that_somebody_has_stays_however_old_it_is(disk_of_places: Path) -> None:
    place = ShellPlace.made(None)
    aged(place.path)
    await Shell().call()
    assert inside(disk_of_places) == {place.path}
    await place.remove()


async def test_what_was_just_made_and_what_is_no_place_stays(disk_of_places: Path) -> None:
    fresh, elsewhere = disk_of_places / "turngate-shell-fresh", disk_of_places / "other"
    for folder in (fresh, elsewhere):
        folder.mkdir()
    aged(elsewhere)
    link, file = disk_of_places / "turngate-shell-link", disk_of_places / "turngate-shell-file"
    link.symlink_to(elsewhere)
    file.touch()
    aged(file)
    await Shell().call()
    assert inside(disk_of_places) == {fresh, elsewhere, link, file}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
async def test_a_place_of_another_user_stays(disk_of_places: Path) -> None:
    foreign = disk_of_places / "turngate-shell-foreign"
    foreign.mkdir()
    os.chown(foreign, 12345, 12345)
    aged(foreign)
    await Shell().call()
    assert inside(disk_of_places) == {foreign}
