"""Files that lie at a vendor: uploaded inside a model call, kept for an hour, then let go of there.

One upload serves all calls of a session within that hour. What a vendor has no storage for is shown
as its stub, with a warning; every other failure of an upload fails the model call (run-context.md
4.6).
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol
from weakref import WeakValueDictionary

import structlog

from app.turn.ports import ProviderError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from app.turn.native_files import NativeFile
    from app.turn.ports import Clock

KEPT_FILES: Final = 128
KEPT_MS: Final = 3_600_000
# A vendor is told to let go by itself: this process may die, or never be asked again.
VENDOR_KEEPS_S: Final = 2 * 3600
CLOSE_S: Final = 5.0

log = structlog.get_logger("turngate.inputs")


class Unsupported(Exception):
    """The vendor has no storage for such a file."""


class VendorStorage(Protocol):
    """The files of one account at a vendor. Both methods raise ProviderError."""

    @property
    def account(self) -> object:
        """Tells accounts apart: an id means nothing at another one."""
        ...

    def takes(self, media_type: str) -> bool:
        """Whether a model of the vendor can be shown such a file by its id."""
        ...

    async def upload(self, file: NativeFile, content: bytes) -> str:
        """The vendor's id of the file. Raises Unsupported."""
        ...

    async def delete(self, file_id: str) -> None: ...


@dataclass(frozen=True, slots=True)
class _Kept:
    file_id: str
    until_ms: int
    storage: VendorStorage


class NativeFiles:
    """The files of all sessions at all vendors, by the bytes that they hold."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._kept: OrderedDict[object, _Kept] = OrderedDict()
        self._uploading: WeakValueDictionary[object, asyncio.Lock] = WeakValueDictionary()

    async def placed(
        self, files: Iterable[NativeFile], storage: VendorStorage | None
    ) -> dict[str, str | None]:
        """By source the vendor's id of each file; None where its stub is to stand for it.

        Raises ProviderError. Without a storage there are stubs alone.
        """
        return {file.source: await self._placed(file, storage) for file in files}

    async def forget(self, files: Iterable[NativeFile], storage: VendorStorage | None) -> None:
        """Let go of files whose ids the vendor may not know any more."""
        if storage is not None:
            await self._drop([_key(file, storage) for file in files])

    async def aclose(self) -> None:
        """Let go of every file, within seconds."""
        await self._drop(list(self._kept))

    async def _placed(self, file: NativeFile, storage: VendorStorage | None) -> str | None:
        if storage is None or not storage.takes(file.media_type):
            _warn(file, "unsupported")
            return None
        key = _key(file, storage)
        lock = self._uploading.setdefault(key, asyncio.Lock())
        async with lock:
            now = self._clock.now_ms()
            await self._drop([one for one, kept in self._kept.items() if kept.until_ms <= now])
            if (kept := self._kept.get(key)) is not None:
                self._kept.move_to_end(key)
                return kept.file_id
            if not (content := await _bytes(file)):
                _warn(file, "bytes_unavailable")
                return None
            try:
                file_id = await storage.upload(file, content)
            except Unsupported:
                _warn(file, "unsupported")
                return None
            self._kept[key] = _Kept(file_id, now + KEPT_MS, storage)
            await self._drop(list(self._kept)[:-KEPT_FILES])
        return file_id

    async def _drop(self, keys: Iterable[object]) -> None:
        """Forget entries, each at once, and then let go of their files, all together."""
        dropped = [kept for key in keys if (kept := self._kept.pop(key, None)) is not None]
        async with asyncio.TaskGroup() as going:
            for kept in dropped:
                going.create_task(_let_go(kept))


def _key(file: NativeFile, storage: VendorStorage) -> object:
    who = file.identity
    return storage.account, who.tenant, who.user, who.session, file.sha256


async def _bytes(file: NativeFile) -> bytes | None:
    try:
        return await file.read()
    except Exception:  # noqa: BLE001 - a file that cannot be read never fails a run: its stub stands
        return None


async def _let_go(kept: _Kept) -> None:
    """Delete a file at its vendor; where that fails the vendor's own bound ends it."""
    try:
        async with asyncio.timeout(CLOSE_S):
            await kept.storage.delete(kept.file_id)
    except Unsupported:
        return  # The vendor has no such file any more.
    except (ProviderError, TimeoutError) as error:
        log.warning("inputs.native_left_over", file=kept.file_id, error=type(error).__name__)


def _warn(file: NativeFile, reason: str) -> None:
    """Tell that the model gets a stub in the file's place."""
    log.warning("inputs.native_refused", artifact=file.id, reason=reason)
