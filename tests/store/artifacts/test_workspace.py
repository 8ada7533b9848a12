"""Files of a workspace: bounds that hold under concurrency, tags, tenants."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from app.log.records import FileEntry, WorkspaceFile
from app.policy.taint import Trust
from app.tools.ports import FileRefused
from tests.support.database.postgres import NOON, after

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from app.store.artifacts.workspace import StoreWorkspace
    from app.store.open import Store

pytestmark = pytest.mark.postgres

LIMIT = 100


def file(path: str, content: bytes, trust: Trust = Trust.TRUSTED_USER) -> WorkspaceFile:
    return WorkspaceFile(path, content, trust, NOON)


async def test_a_file_is_written_read_replaced_and_deleted(store: Store, tenant: str) -> None:
    files = store.workspace(tenant)
    assert await files.read_file("c", "a.txt") is None
    first = file("a.txt", b"one\0")
    assert await files.write_file("c", first, max_total_bytes=LIMIT)
    assert await files.read_file("c", "a.txt") == first
    second = WorkspaceFile("a.txt", b"two", Trust.QUARANTINED_CONTENT, after(5))
    assert await files.write_file("c", second, max_total_bytes=LIMIT)
    assert await files.read_file("c", "a.txt") == second
    assert await files.delete_file("c", "a.txt") is True
    assert await files.delete_file("c", "a.txt") is False


async def test_files_are_listed_with_their_sizes(store: Store, tenant: str) -> None:
    files = store.workspace(tenant)
    for path in ("b", "a/x", "nul\0"):
        await files.write_file("d", file(path, b"12345"), max_total_bytes=LIMIT)
    listed = await files.list_files("d")
    assert sorted(listed, key=lambda entry: entry.path) == [
        FileEntry("a/x", 5),
        FileEntry("b", 5),
        FileEntry("nul\0", 5),
    ]
    assert await store.workspace(f"{tenant}-other").list_files("d") == []


async def test_a_workspace_is_never_fuller_than_allowed(store: Store, tenant: str) -> None:
    files = store.workspace(tenant)
    assert await files.write_file("e", file("a", b"x" * 60), max_total_bytes=LIMIT)
    assert not await files.write_file("e", file("b", b"x" * 41), max_total_bytes=LIMIT)
    assert await files.write_file("e", file("b", b"x" * 40), max_total_bytes=LIMIT)
    # What is replaced does not count.
    assert await files.write_file("e", file("a", b"y" * 60), max_total_bytes=LIMIT)
    assert not await files.write_file("e", file("a", b"y" * 61), max_total_bytes=LIMIT)
    kept = await files.read_file("e", "a")
    assert kept
    assert kept.content == b"y" * 60


async def test_concurrent_writers_cannot_fill_it_together(store: Store, tenant: str) -> None:
    files = store.workspace(tenant)
    written = await asyncio.gather(
        *(files.write_file("f", file(f"{n}", b"x" * 30), max_total_bytes=LIMIT) for n in range(8))
    )
    assert sum(written) == 3


async def test_what_is_copied_is_exactly_what_lies_within_with_its_tag(
    store: Store, tenant: str
) -> None:
    files = store.workspace(tenant)
    untrusted = file("reports/q1", b"1", Trust.QUARANTINED_CONTENT)
    for one in (untrusted, file("reports.txt", b"2"), file("notes/a", b"3"), file("a%b", b"4")):
        await files.write_file("f", one, max_total_bytes=LIMIT)
    await files.write_file("f/w", file("left over", b"5"), max_total_bytes=LIMIT)
    assert await files.copy_files("f", "f/w", ["reports", "a%b", "a_b", "nothing"]) == [
        "a%b",
        "reports/q1",
    ]
    assert [entry.path for entry in await files.list_files("f/w")] == ["a%b", "reports/q1"]
    assert await files.read_file("f/w", "reports/q1") == untrusted
    assert await files.copy_files("f", "f/w", []) == []
    assert await files.list_files("f/w") == []
    assert len(await files.copy_files("f", "f/w", ["."])) == 4
    other = store.workspace(f"{tenant}-other")
    assert await other.copy_files("f", "f/x", ["."]) == []


async def several(*files: WorkspaceFile) -> AsyncIterator[WorkspaceFile]:
    for one in files:
        yield one


async def contents(files: StoreWorkspace, conversation: str) -> dict[str, bytes]:
    found = [
        await files.read_file(conversation, e.path) for e in await files.list_files(conversation)
    ]
    return {one.path: one.content for one in found if one is not None}


async def test_changes_are_made_as_one_act(store: Store, tenant: str) -> None:
    files = store.workspace(tenant)
    for path in ("g/old", "g/kept", "nul\0"):
        await files.write_file("g", file(path, b"1"), max_total_bytes=LIMIT)
    new = several(file("g/new", b"2"), file("g/kept", b"3"))
    assert await files.change_files("g", new, ["g/old", "nul\0"], max_total_bytes=LIMIT)
    assert await contents(files, "g") == {"g/kept": b"3", "g/new": b"2"}


async def test_of_changes_that_do_not_fit_or_are_cut_off_none_is_made(
    store: Store, tenant: str
) -> None:
    files = store.workspace(tenant)
    await files.write_file("h", file("old", b"1"), max_total_bytes=LIMIT)
    both = several(file("a", b"x" * 60), file("b", b"x" * 41))
    assert not await files.change_files("h", both, ["old"], max_total_bytes=LIMIT)

    async def cut_off() -> AsyncIterator[WorkspaceFile]:
        yield file("a", b"x")
        raise FileRefused("cut off")

    with pytest.raises(FileRefused):
        await files.change_files("h", cut_off(), ["old"], max_total_bytes=LIMIT)
    assert await contents(files, "h") == {"old": b"1"}


async def test_thousands_of_files_are_written_in_batches(store: Store, tenant: str) -> None:
    files = store.workspace(tenant)
    many = several(*(file(f"f{at}", b"") for at in range(2500)))
    assert await files.change_files("i", many, [], max_total_bytes=LIMIT)
    assert len(await files.list_files("i")) == 2500
