"""A worker's files: a workspace of its own, and what its parent shares with it (turn.md 7.1)."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from app.log.records import WorkspaceFile
from app.policy.taint import Trust
from app.tools.sandbox.workspace import MAX_FILE_BYTES, SharedWorkspace, worker_place
from app.turn.ports import WorkerScope
from tests.tools.played import FilesInMemory

NOON = datetime(2026, 11, 29, 12, tzinfo=UTC)


def scope(*share_in: str, call_id: str = "call_1_1_0", run_id: str = "run_1") -> WorkerScope:
    return WorkerScope(run_id, call_id, (), share_in)


async def kept(*paths: str) -> FilesInMemory:
    files = FilesInMemory()
    for path in paths:
        one = WorkspaceFile(path, path.encode(), Trust.QUARANTINED_CONTENT, NOON)
        await files.write_file("conv_1", one, max_total_bytes=MAX_FILE_BYTES)
    return files


def test_each_delegation_of_each_run_has_a_place_of_its_own() -> None:
    places = {
        worker_place(scope()),
        worker_place(scope(call_id="call_1_1_1")),
        worker_place(scope(run_id="run_2")),
    }
    assert len(places) == 3


@pytest.mark.parametrize(
    ("share_in", "shared"),
    [
        ((), []),
        (("reports/",), ["reports/a", "reports/b/c"]),
        (("reports/b", "notes"), ["notes", "reports/b/c"]),
        (("./reports/../notes",), ["notes"]),
        ((".",), ["notes", "reports/a", "reports/b/c"]),
        (("report",), []),
        (("/", "../conv_2", "/etc"), []),
    ],
)
async def test_only_what_lies_within_the_ceiling_is_copied_in(
    share_in: tuple[str, ...], shared: list[str]
) -> None:
    files = await kept("reports/a", "reports/b/c", "notes")
    way = SharedWorkspace(files, "conv_1")
    assert list(await way.copy_in(scope(*share_in))) == shared
    place = worker_place(scope())
    assert sorted(path for where, path in files.rows if where == place) == shared
    assert all(file.trust == Trust.QUARANTINED_CONTENT for file in files.rows.values())
