"""Which files a vendor has just now, on a storage in memory: C99."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from structlog.testing import capture_logs

from app.providers.native_files import KEPT_FILES, NativeFiles, Unsupported
from app.turn.ports import FailureKind, ProviderError
from tests.providers.native import Bytes, native
from tests.providers.played import NotedClock

if TYPE_CHECKING:
    from app.turn.native_files import NativeFile


@dataclass
class Cabinet:
    """A storage in memory."""

    account: object = "cabinet"
    uploads: int = 0
    deleted: list[str] = field(default_factory=list)
    error: Exception | None = None

    def takes(self, media_type: str) -> bool:
        return True

    async def upload(self, file: NativeFile, content: bytes) -> str:
        self.uploads += 1
        if self.error is not None:
            raise self.error
        return f"file-{self.uploads}"

    async def delete(self, file_id: str) -> None:
        self.deleted.append(file_id)
        if self.error is not None:
            raise self.error


async def test_c99_of_too_many_files_the_one_not_used_for_longest_is_let_go_of() -> None:
    cabinet, files = Cabinet(), NativeFiles(NotedClock())
    wanted = [native(Bytes().read, sha256=f"{at:064x}") for at in range(KEPT_FILES + 1)]
    await files.placed(wanted[:-1], cabinet)
    await files.placed(wanted[:1], cabinet)
    await files.placed(wanted[-1:], cabinet)
    assert (cabinet.uploads, cabinet.deleted) == (KEPT_FILES + 1, ["file-2"])
    await files.aclose()
    assert len(cabinet.deleted) == KEPT_FILES + 1


async def test_two_accounts_have_nothing_in_common() -> None:
    one, other, files = Cabinet("one"), Cabinet("other"), NativeFiles(NotedClock())
    for cabinet in (one, other):
        await files.placed([native(Bytes().read)], cabinet)
    assert (one.uploads, other.uploads) == (1, 1)


async def test_a_file_that_cannot_be_let_go_of_hinders_nobody() -> None:
    cabinet, files = Cabinet(), NativeFiles(NotedClock())
    await files.placed([native(Bytes().read)], cabinet)
    cabinet.error = ProviderError(FailureKind.UNAVAILABLE, "away")
    with capture_logs() as told:
        await files.aclose()
    assert [line["event"] for line in told] == ["inputs.native_left_over"]


async def test_of_many_calls_at_once_one_uploads() -> None:
    cabinet, files, bytes_ = Cabinet(), NativeFiles(NotedClock()), Bytes()
    placing = [files.placed([native(bytes_.read)], cabinet) for _ in range(8)]
    assert await asyncio.gather(*placing) == [{"artifact:art_1": "file-1"}] * 8
    assert (cabinet.uploads, bytes_.reads) == (1, 1)


async def test_an_upload_that_is_refused_leaves_nothing_to_let_go_of() -> None:
    cabinet, files = Cabinet(error=Unsupported()), NativeFiles(NotedClock())
    assert await files.placed([native(Bytes().read)], cabinet) == {"artifact:art_1": None}
    await files.aclose()
    assert cabinet.deleted == []
