"""What a relaxed sandbox opens: the operator's folders, and nothing beside them (turn.md 7.6)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from app.policy.taint import Trust
from app.tools.builtin import builtin_tools
from app.tools.executors.executor import ScopedExecutor
from app.tools.http import OutboundHttp
from app.tools.paths import SandboxDenied
from app.tools.registry import ToolRegistry
from app.tools.sandbox.roots import RootedWorkspace
from app.tools.sandbox.workspace import ConversationWorkspace
from tests.tools.played import FilesInMemory, FixedClock, invocation, result_of

if TYPE_CHECKING:
    from pathlib import Path

    from app.turn.ports import ToolOutcome

CLOCK = FixedClock()
REGISTRY = ToolRegistry(builtin_tools(CLOCK, OutboundHttp()))


class Outside:
    """The file tools over a workspace in memory and the root `shared` of a folder on disk."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "shared"
        self.root.mkdir()
        self.inside = ConversationWorkspace(FilesInMemory(), "conv_1", clock=CLOCK)
        self.files = RootedWorkspace(self.inside, [self.root])
        names = [tool.name for tool in REGISTRY.all()]
        self.executor = ScopedExecutor(REGISTRY, names, consent=[], workspace=self.files)

    async def call(self, name: str, mode: str | None = "relaxed", **args: Any) -> ToolOutcome:
        return await self.executor.execute(replace(invocation(name, args), sandbox_mode=mode))

    def path(self, rest: str = "") -> str:
        return f"{self.root}{rest}"


@pytest.fixture
def outside(tmp_path: Path) -> Outside:
    return Outside(tmp_path)


async def test_files_of_a_root_are_written_read_listed_and_deleted(outside: Outside) -> None:
    path = outside.path("/notes/a.txt")
    written = await outside.call("files_write", path=path, content="hi")
    assert result_of(written) == {"path": path, "size_bytes": 2}
    assert (outside.root / "notes" / "a.txt").read_text() == "hi"
    read = await outside.call("files_read", path=path)
    assert result_of(read) == {"path": path, "content": "hi"}
    for place in (outside.path(), outside.path("/notes"), path):
        listed = await outside.call("files_list", path=place)
        assert result_of(listed) == {"files": [{"path": path, "size_bytes": 2}]}
    assert (await outside.call("files_delete", path=path)).code is None
    assert not (outside.root / "notes" / "a.txt").exists()


async def test_what_lies_outside_is_untrusted_content(outside: Outside) -> None:
    path = outside.path("/a.txt")
    (outside.root / "a.txt").write_text("do as I say")
    for name, place in (("files_read", path), ("files_list", outside.path())):
        outcome = await outside.call(name, path=place)
        assert outcome.trust is Trust.QUARANTINED_CONTENT
    await outside.call("files_write", path="mine", content="x")
    for name, place in (("files_read", "mine"), ("files_list", "")):
        assert (await outside.call(name, path=place)).trust is Trust.UNSPECIFIED


@pytest.mark.parametrize("name", ["files_list", "files_read", "files_write", "files_delete"])
async def test_without_the_mode_a_root_is_as_closed_as_anything(
    outside: Outside, name: str
) -> None:
    outcome = await outside.call(name, mode=None, path=outside.path("/a"), content="x")
    assert outcome.code == "sandbox_denied"
    assert list(outside.root.iterdir()) == []


@pytest.mark.parametrize("name", ["files_list", "files_read", "files_write", "files_delete"])
@pytest.mark.parametrize(
    "path", ["/etc/passwd", "{root}/../x", "{root}x/y", "/", "//etc//passwd", "../x", "a/../../x"]
)
async def test_relaxed_or_not_nothing_but_the_roots_is_reached(
    outside: Outside, name: str, path: str
) -> None:
    args = {"path": path.format(root=outside.root), "content": "x"}
    outcome = await outside.call(name, **args)
    assert outcome.code == "sandbox_denied"


@pytest.mark.parametrize("name", ["files_list", "files_read", "files_write", "files_delete"])
async def test_a_link_within_a_root_leads_nowhere(
    outside: Outside, tmp_path: Path, name: str
) -> None:
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "key").write_text("hidden")
    (outside.root / "out").symlink_to(secret)
    outcome = await outside.call(name, path=outside.path("/out/key"), content="x")
    assert outcome.code == "sandbox_denied"
    assert "leads through a link" in outcome.text
    assert [path.name for path in secret.iterdir()] == ["key"]
    assert (secret / "key").read_text() == "hidden"


async def test_a_link_in_the_place_of_the_file_is_not_read_through(
    outside: Outside, tmp_path: Path
) -> None:
    (tmp_path / "key").write_text("hidden")
    (outside.root / "link").symlink_to(tmp_path / "key")
    for name in ("files_read", "files_list"):
        outcome = await outside.call(name, path=outside.path("/link"))
        assert outcome.code == "sandbox_denied"


async def test_a_path_with_dots_is_refused_even_if_nobody_normalised_it(outside: Outside) -> None:
    with pytest.raises(SandboxDenied):
        await outside.files.read(outside.path("/../../etc/passwd"))


async def test_a_workspace_without_roots_holds_no_absolute_path(outside: Outside) -> None:
    for act in (
        outside.inside.read("/a"),
        outside.inside.write("/a", b"", Trust.UNSPECIFIED),
        outside.inside.delete("/a"),
    ):
        with pytest.raises(SandboxDenied):
            await act


async def test_files_that_are_missing_or_refused_are_ordinary_failures(outside: Outside) -> None:
    missing = await outside.call("files_read", path=outside.path("/no"))
    assert (missing.code, "there is no file" in missing.text) == ("tool_failed", True)
    assert (await outside.call("files_delete", path=outside.path("/no"))).code is None
    assert result_of(await outside.call("files_list", path=outside.path("/no"))) == {"files": []}
    root = await outside.call("files_read", path=outside.path())
    assert (root.code, "the path of a file" in root.text) == ("tool_failed", True)
    (outside.root / "folder").mkdir()
    assert (await outside.call("files_read", path=outside.path("/folder"))).code == "tool_failed"
    big = await outside.call(
        "files_write", path=outside.path("/b"), content="x" * (10 * 1024 * 1024 + 1)
    )
    assert (big.code, list(outside.root.glob("b"))) == ("tool_failed", [])


async def test_the_workspace_itself_is_as_ever_in_a_relaxed_sandbox(outside: Outside) -> None:
    await outside.call("files_write", path="a", content="x")
    assert [entry.path for entry in await outside.inside.list()] == ["a"]
    assert result_of(await outside.call("files_read", path="a"))["content"] == "x"
    assert (await outside.call("files_delete", path="a")).code is None


async def test_a_root_within_a_root_is_its_own(tmp_path: Path) -> None:
    inner = tmp_path / "r" / "inner"
    inner.parent.mkdir()
    (tmp_path / "elsewhere").mkdir()
    inner.symlink_to(tmp_path / "elsewhere")
    inside = ConversationWorkspace(FilesInMemory(), "conv_1", clock=CLOCK)
    files = RootedWorkspace(inside, [tmp_path / "r", inner])
    await files.write(f"{inner}/a", b"x", Trust.UNSPECIFIED)
    assert (tmp_path / "elsewhere" / "a").read_bytes() == b"x"
