"""Artifacts: files of a conversation, as its people upload, read and delete them (service.md 4).

What is uploaded is untrusted content. An artifact belongs to its conversation, whoever brought it:
the user of its scope is the conversation's principal. Out of reach and missing are the same answer.

Bytes are staged as they come, before the transaction that keeps them, and read as they are taken,
so that a slow upload or download holds nothing but its request.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final, Protocol

from app.ids import Identity
from app.policy.taint import Trust
from app.runctx.shapes import NewArtifact
from app.service.reach import takes_part, visible_conversation
from app.service.refusals import ArtifactTooLarge, NotFound, PresignUnsupported

if TYPE_CHECKING:
    from collections.abc import AsyncIterable, AsyncIterator
    from contextlib import AbstractAsyncContextManager
    from datetime import datetime

    from app.log.queries import Page
    from app.log.records import ConversationRecord
    from app.runctx.shapes import ArtifactRef, Staged
    from app.service.caller import Caller
    from app.service.clock import Clock
    from app.service.ports.database import Session, Transaction

ARTIFACT_BYTES: Final = 25 * 1024 * 1024
PRESIGNED_FOR: Final = timedelta(minutes=5)


@dataclass(frozen=True, slots=True)
class Upload:
    """A file that somebody sent; `mime` is their word for it."""

    conversation_id: str
    staged: Staged
    mime: str
    filename: str | None = None


class Shelf(Protocol):
    """Where the bytes of artifacts lie."""

    def staging(
        self, tenant: str, key: str, content: AsyncIterable[bytes], *, mime: str
    ) -> AbstractAsyncContextManager[Staged]:
        """Take bytes in, for an artifact of that id to be kept within the block.

        What nobody keeps is let go. What `content` raises passes. Raises StoreUnavailable.
        """
        ...

    def read(self, artifact: ArtifactRef, part: range) -> AsyncIterator[bytes]:
        """The bytes at these places, piece by piece; nothing where it is gone.

        Raises ArtifactGone, ArtifactCorrupt, StoreUnavailable.
        """
        ...


class Artifacts:
    """The artifacts in a caller's reach; one has at most `max_bytes`."""

    def __init__(self, clock: Clock, shelf: Shelf, *, max_bytes: int = ARTIFACT_BYTES) -> None:
        self._clock = clock
        self._shelf = shelf
        self.max_bytes = max_bytes

    def staging(
        self, caller: Caller, content: AsyncIterable[bytes], *, mime: str
    ) -> AbstractAsyncContextManager[Staged]:
        """Take in the bytes of an upload, to be kept within the block or let go.

        Raises ArtifactTooLarge as soon as there is a byte too many, StoreUnavailable.
        """
        bounded = _bounded(content, self.max_bytes)
        return self._shelf.staging(caller.tenant, self._clock.mint("art"), bounded, mime=mime)

    async def destination(
        self, session: Session, caller: Caller, conversation_id: str
    ) -> ConversationRecord:
        """The conversation of an upload, for whoever takes part in it. Raises NotFound."""
        conversation = await session.conversation(conversation_id)
        if conversation is None or not takes_part(caller, conversation):
            raise NotFound("conversation")
        return conversation

    async def upload(
        self, tx: Transaction, caller: Caller, upload: Upload
    ) -> tuple[ArtifactRef, bool]:
        """Keep a file, for whoever takes part; False if the conversation has it already.

        Raises NotFound, StoreUnavailable.
        """
        conversation = await self.destination(tx, caller, upload.conversation_id)
        new = NewArtifact(
            id=upload.staged.id,
            namespace="uploads",
            content=upload.staged,
            mime=upload.mime,
            trust=Trust.QUARANTINED_CONTENT,
            at=self._clock.now(),
            by=caller.principal,
            filename=upload.filename,
        )
        return await tx.put_artifact(_scope(conversation), new)

    async def read(self, session: Session, caller: Caller, artifact_id: str) -> ArtifactRef:
        """An artifact of a conversation in reach. Raises NotFound."""
        artifact = await session.artifact(artifact_id)
        if artifact is None:
            raise NotFound("artifact")
        try:
            await visible_conversation(session, caller, artifact.identity.session)
        except NotFound:
            raise NotFound("artifact") from None
        return artifact

    def pieces(self, artifact: ArtifactRef, part: range) -> AsyncIterator[bytes]:
        """Its bytes at these places, piece by piece; nothing where it is gone meanwhile.

        Raises ArtifactGone where it goes later on, ArtifactCorrupt, StoreUnavailable.
        """
        return self._shelf.read(artifact, part)

    async def presigned(
        self, session: Session, caller: Caller, artifact_id: str
    ) -> tuple[str, datetime]:
        """A URL that reads the bytes without a token, and until when it does.

        Raises NotFound, PresignUnsupported.
        """
        artifact = await self.read(session, caller, artifact_id)
        until = self._clock.now() + PRESIGNED_FOR
        seconds = int(PRESIGNED_FOR.total_seconds())
        url = await session.artifact_url(artifact, seconds=seconds)
        if url is None:
            raise PresignUnsupported
        return url, until

    async def page(
        self, session: Session, caller: Caller, page: Page, *, conversation_id: str
    ) -> list[ArtifactRef]:
        """The artifacts of a conversation in reach, newest first. Raises NotFound."""
        await visible_conversation(session, caller, conversation_id)
        return await session.artifacts(conversation_id, page)

    async def delete(self, tx: Transaction, caller: Caller, artifact_id: str) -> None:
        """Let go of an artifact: who brought it may, the conversation's principal, an admin.

        What the log says of it stays; it reads as gone. Raises NotFound.
        """
        artifact = await self.read(tx, caller, artifact_id)
        if not caller.is_admin and caller.principal not in {artifact.by, artifact.identity.user}:
            raise NotFound("artifact")
        await tx.delete_artifact(artifact)


def _scope(conversation: ConversationRecord) -> Identity:
    return Identity(conversation.tenant, conversation.principal, conversation.id)


async def _bounded(content: AsyncIterable[bytes], most: int) -> AsyncIterator[bytes]:
    size = 0
    async for chunk in content:
        size += len(chunk)
        if size > most:
            raise ArtifactTooLarge(most)
        yield chunk
