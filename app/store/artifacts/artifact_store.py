"""Artifacts: the port `ArtifactStore`, over Postgres alone or with a bucket (run-context.md 7).

Bytes are taken in as they come and handed out as they are taken, a piece at a time: whoever is slow
to send or to read them keeps no connection, no transaction and no more memory than that.

What comes in is noted before its first byte lies anywhere (`leftovers`) and brought to where it
will stay; the transaction that makes the artifact takes the note. So an upload that is refused, cut
off or outlived by its process leaves nothing behind for good.
"""

from __future__ import annotations

import asyncio
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import replace
from hashlib import sha256
from typing import TYPE_CHECKING, Final

from app.errors import ArtifactCorrupt, ArtifactGone, StoreUnavailable
from app.runctx.mime import OCTETS, TEXT, served_type, sniffed
from app.runctx.shapes import Staged
from app.store.artifacts import leftovers, pieces
from app.store.artifacts.artifact_rows import ArtifactRows, scope_of
from app.store.artifacts.incoming import Incoming
from app.store.server.row_security import OneTenant
from app.store.texts import escape

if TYPE_CHECKING:
    from collections.abc import AsyncIterable, AsyncIterator

    from app.ids import Identity
    from app.runctx.shapes import ArtifactRef, NewArtifact
    from app.store.artifacts.artifact_rows import Layout
    from app.store.artifacts.bucket import Bucket
    from app.store.server.connections import Pool

# A bucket is far away, so it is asked for several pieces at once.
_PIECES_A_REQUEST: Final = 4


class StoreArtifacts(ArtifactRows):
    """Artifacts over a pool, and perhaps over a bucket, in which the bytes of new ones lie."""

    def __init__(self, pool: Pool, bucket: Bucket | None = None) -> None:
        super().__init__(pool, bucket)
        self._pool = pool

    async def put(self, identity: Identity, new: NewArtifact) -> tuple[ArtifactRef, bool]:
        """Keep a file; with False the scope has it already, and only its trust is joined."""
        scope_of(identity)
        if isinstance(new.content, Staged):
            return await self.keep(identity, new)
        content = _once(new.content)
        async with self.staging(identity.tenant, new.id, content, mime=new.mime) as staged:
            return await self.keep(identity, replace(new, content=staged))

    @asynccontextmanager
    async def staging(
        self, tenant: str, key: str, content: AsyncIterable[bytes], *, mime: str
    ) -> AsyncIterator[Staged]:
        """Take bytes in, for an artifact to be kept within the block; else they are swept soon.

        `mime` is what they are declared as. What `content` raises passes through. Raises
        StoreUnavailable.
        """
        async with aclosing(Incoming(content)) as incoming:
            await incoming.begin()
            if incoming.is_whole and self._bucket is None:
                yield incoming.at_hand(key)
                return
            rows = OneTenant(self._pool, escape(tenant))
            await leftovers.note(rows, escape(tenant), key, in_pieces=self._bucket is None)
            try:
                if self._bucket is None:
                    await pieces.append_all(rows, escape(tenant), key, incoming.pieces())
                else:
                    await _bring(self._bucket, key, incoming, mime)
                yield incoming.lying(key, in_bucket=self._bucket is not None)
            finally:
                with suppress(StoreUnavailable):
                    await leftovers.hurry(rows, key)

    async def read(self, artifact: ArtifactRef, part: range) -> AsyncIterator[bytes]:
        """The bytes at these places, piece by piece, of which each is checked first.

        Nothing where the artifact is gone. Raises ArtifactGone where it goes meanwhile,
        ArtifactCorrupt, StoreUnavailable.
        """
        layout = await self.layout(artifact.identity, artifact.id)
        if layout is None:
            whole = await self.get(artifact.identity, artifact.id)
            if whole is not None:
                yield whole[part.start : part.stop]
            return
        size = layout.piece_bytes
        position = part.start // size
        async for piece in self._pieces(artifact, layout, range(position, -(-part.stop // size))):
            if await asyncio.to_thread(_digest, piece) != layout.digest(position):
                # The bytes go after their artifact, so of one that is there they were altered.
                if not await self.exists(artifact.identity, artifact.id):
                    raise ArtifactGone(f"{artifact.id!r} was deleted while it was read")
                raise ArtifactCorrupt(f"{artifact.id!r} has other bytes than were kept")
            begin = position * size
            yield piece[max(0, part.start - begin) : part.stop - begin]
            position += 1

    async def _pieces(
        self, artifact: ArtifactRef, layout: Layout, positions: range
    ) -> AsyncIterator[bytes]:
        """The pieces at these positions as they lie there; one that is gone has no bytes."""
        if layout.in_pieces:
            tenant = escape(artifact.identity.tenant)
            rows = OneTenant(self._pool, tenant)
            for position in positions:
                found = await pieces.read(rows, tenant, artifact.id, position=position)
                yield found or b""
            return
        size = layout.piece_bytes
        for first in positions[::_PIECES_A_REQUEST]:
            last = min(first + _PIECES_A_REQUEST, positions.stop)
            part = range(first * size, min(last * size, artifact.size_bytes))
            stretch = await self._reachable().get_part(artifact.id, part) or b""
            for begin in range(0, len(part), size):
                yield stretch[begin : begin + size]


async def _bring(bucket: Bucket, key: str, incoming: Incoming, mime: str) -> None:
    found = sniffed(incoming.first)
    if incoming.is_whole:
        await bucket.put(key, incoming.first, media_type=served_type(mime, found))
        return
    # An object has its type before its end is known, and what begins as text may end as anything.
    kind = served_type(mime, OCTETS if found == TEXT else found)
    await bucket.put_pieces(key, incoming.pieces(), media_type=kind)


async def _once(content: bytes) -> AsyncIterator[bytes]:
    yield content


def _digest(piece: bytes) -> bytes:
    return sha256(piece).digest()
