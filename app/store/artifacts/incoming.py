"""Bytes as they come in: cut into pieces, and looked at on their way.

Of a file only a piece or two are in memory, however large it is and however slowly it comes.
"""

from __future__ import annotations

import asyncio
import hashlib
from typing import TYPE_CHECKING, Final

from app.runctx.mime import Sniffer
from app.runctx.shapes import Staged

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterable

# A file of one piece lies in its artifact's row.
PIECE_BYTES: Final = 1024 * 1024


class Incoming:
    """A file that comes in: its first piece, then all of them, then what was learned on the way."""

    def __init__(self, content: AsyncIterable[bytes]) -> None:
        self._cut = _cut(content)
        self._look = _Look()
        self.first = b""
        self.is_whole = False

    async def begin(self) -> None:
        """Take the first piece, and learn whether it is the whole file."""
        self.first, self.is_whole = await anext(self._cut)
        await asyncio.to_thread(self._look.take, self.first)

    async def pieces(self) -> AsyncGenerator[bytes]:
        """Every piece, the first one again and the others as they come."""
        yield self.first
        async for piece, _ in self._cut:
            await asyncio.to_thread(self._look.take, piece)
            yield piece

    def at_hand(self, key: str) -> Staged:
        """The file, all of which has come with its first piece."""
        return self._look.staged(key, content=self.first)

    def lying(self, key: str, *, in_bucket: bool) -> Staged:
        """The file, all of whose pieces lie where they are to stay."""
        return self._look.staged(key, in_bucket=in_bucket)

    async def aclose(self) -> None:
        """Let go of what has not come."""
        await self._cut.aclose()


class _Look:
    """What is learned of a file while its pieces pass."""

    def __init__(self) -> None:
        self._whole = hashlib.sha256()
        self._sniffer = Sniffer()
        self._size = 0
        self._digests = bytearray()

    def take(self, piece: bytes) -> None:
        self._whole.update(piece)
        # What is whole with its first piece is not to be hashed twice.
        digest = hashlib.sha256(piece) if self._size else self._whole
        self._digests += digest.digest()
        self._sniffer.feed(piece)
        self._size += len(piece)

    def staged(self, key: str, *, content: bytes | None = None, in_bucket: bool = False) -> Staged:
        lies_elsewhere = content is None
        return Staged(
            id=key,
            sha256=self._whole.hexdigest(),
            size_bytes=self._size,
            sniffed=self._sniffer.found(),
            content=content,
            in_bucket=in_bucket,
            piece_bytes=PIECE_BYTES if lies_elsewhere else None,
            piece_digests=bytes(self._digests) if lies_elsewhere else None,
        )


def at_hand(key: str, content: bytes) -> Staged:
    """A file that is all there, and is to lie in its artifact's row."""
    look = _Look()
    look.take(content)
    return look.staged(key, content=content)


async def _cut(content: AsyncIterable[bytes]) -> AsyncGenerator[tuple[bytes, bool]]:
    """The pieces, and of each whether it is the last; an empty file has an empty one."""
    held = bytearray()
    async for chunk in content:
        held += chunk
        while len(held) > PIECE_BYTES:
            with memoryview(held) as view:
                piece = bytes(view[:PIECE_BYTES])
            del held[:PIECE_BYTES]
            yield piece, False
    yield bytes(held), True
