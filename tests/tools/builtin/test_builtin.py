"""The built-in tools of files and time: what they answer, and the tags that files carry."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from jsonschema import Draft202012Validator

from app.policy.consent import ConsentRules
from app.policy.taint import Trust
from app.tools.builtin import builtin_tools
from app.tools.executors.executor import ScopedExecutor
from app.tools.http import OutboundHttp
from app.tools.ports import WorkspaceFull
from app.tools.registry import ToolRegistry
from app.tools.sandbox.workspace import MAX_FILE_BYTES, MAX_WORKSPACE_BYTES, ConversationWorkspace
from tests.tools.played import FilesInMemory, FixedClock, invocation, result_of

if TYPE_CHECKING:
    from app.log.records import WorkspaceFile
    from app.turn.ports import ToolOutcome

CLOCK = FixedClock()
REGISTRY = ToolRegistry(builtin_tools(CLOCK, OutboundHttp()))


class Hands:
    """Calls tools in one workspace."""

    def __init__(self) -> None:
        self.files = FilesInMemory()
        self.workspace = ConversationWorkspace(self.files, "conv_1", clock=CLOCK)
        self._executor = ScopedExecutor(
            REGISTRY,
            [tool.name for tool in REGISTRY.all()],
            consent=[ConsentRules({})],
            workspace=self.workspace,
        )

    async def call(self, name: str, *, tainted: bool = False, **args: str) -> ToolOutcome:
        return await self._executor.execute(invocation(name, args, tainted=tainted))


@pytest.fixture
def hands() -> Hands:
    return Hands()


async def test_clock_now_tells_the_injected_time(hands: Hands) -> None:
    assert (await hands.call("clock_now")).text == '{"now":"2026-11-29T12:00:00.007Z"}'


async def test_a_file_is_written_listed_read_replaced_and_deleted(hands: Hands) -> None:
    written = await hands.call("files_write", path="notes/./a.txt", content="grüße")
    assert written.text == '{"path":"notes/a.txt","size_bytes":7}'
    assert (await hands.call("files_read", path="notes/a.txt")).text == (
        '{"path":"notes/a.txt","content":"grüße"}'
    )
    await hands.call("files_write", path="notes/a.txt", content="x")
    assert (await hands.call("files_list")).text == (
        '{"files":[{"path":"notes/a.txt","size_bytes":1}]}'
    )
    for _ in range(2):  # The second run of one call answers as the first.
        assert (await hands.call("files_delete", path="notes/a.txt")).text == (
            '{"path":"notes/a.txt"}'
        )
    gone = await hands.call("files_read", path="notes/a.txt")
    assert (gone.code, result_of(gone)["code"]) == ("tool_failed", "tool_failed")


async def test_a_folder_is_listed_by_its_path_and_not_by_a_prefix(hands: Hands) -> None:
    for path in ("b/2", "a", "b/1", "bc/1"):
        await hands.call("files_write", path=path, content="")
    paths = {
        place: [
            file["path"] for file in result_of(await hands.call("files_list", path=place))["files"]
        ]
        for place in ("", ".", "b", "b/", "a", "none")
    }
    assert paths == {
        "": ["a", "b/1", "b/2", "bc/1"],
        ".": ["a", "b/1", "b/2", "bc/1"],
        "b": ["b/1", "b/2"],
        "b/": ["b/1", "b/2"],
        "a": ["a"],
        "none": [],
    }


async def test_a_file_carries_the_tag_of_the_context_that_wrote_it(hands: Hands) -> None:
    await hands.call("files_write", path="a", content="x", tainted=True)
    assert (await hands.call("files_read", path="a")).trust is Trust.QUARANTINED_CONTENT
    await hands.call("files_write", path="a", content="x")
    assert (await hands.call("files_read", path="a")).trust is Trust.UNSPECIFIED


async def test_content_that_is_no_text_is_shown_with_replacements(hands: Hands) -> None:
    await hands.workspace.write("a", b"x\xff\x00", Trust.UNSPECIFIED)
    assert result_of(await hands.call("files_read", path="a"))["content"] == "x\ufffd\x00"


async def test_a_conversation_sees_its_own_files_only(hands: Hands) -> None:
    await hands.call("files_write", path="a", content="x")
    other = ConversationWorkspace(hands.files, "conv_2", clock=CLOCK)
    assert await other.list() == []
    assert await other.read("a") is None
    assert not await other.delete("a")


async def test_a_workspace_is_bounded_per_file_and_in_all(hands: Hands) -> None:
    with pytest.raises(WorkspaceFull, match=re.escape("'big'")):
        await hands.workspace.write("big", b"x" * (MAX_FILE_BYTES + 1), Trust.UNSPECIFIED)
    assert (MAX_FILE_BYTES, MAX_WORKSPACE_BYTES) == (10 * 1024**2, 200 * 1024**2)
    for number in range(20):
        content = bytes(MAX_FILE_BYTES)
        await hands.workspace.write(f"f{number}", content, Trust.UNSPECIFIED)
    full = await hands.call("files_write", path="more", content="x")
    assert full.code == "tool_failed"
    assert await hands.workspace.delete("f0")
    assert (await hands.call("files_write", path="more", content="x")).code is None


async def test_a_stored_file_has_the_time_of_its_writing(hands: Hands) -> None:
    await hands.call("files_write", path="a", content="x")
    stored: WorkspaceFile = hands.files.rows[("conv_1", "a")]
    assert stored.updated_at.isoformat() == "2026-11-29T12:00:00.007000+00:00"


SCHEMAS = [
    ("files_read", {}, False),
    ("files_read", {"path": "a"}, True),
    ("files_read", {"path": "a", "x": 1}, False),
    ("files_list", {}, True),
    ("clock_now", {"x": 1}, False),
    ("http_post", {"url": "http://a", "body": ""}, True),
    ("http_post", {"url": "http://a", "body": {}}, False),
    ("http_post", {"url": "http://a", "body": "", "content_type": "a/b\r\nx: y"}, False),
    (
        "http_post",
        {"url": "http://a", "body": "", "content_type": "text/plain; charset=utf-8"},
        True,
    ),
]


@pytest.mark.parametrize(("name", "args", "fits"), SCHEMAS)
def test_the_schemas_are_closed_and_take_what_the_table_says(
    name: str, args: dict[str, object], fits: bool
) -> None:
    tool = REGISTRY.get(name)
    assert tool is not None
    assert Draft202012Validator(tool.parameters).is_valid(args) is fits
