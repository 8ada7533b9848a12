"""Artifacts: files of a conversation, as its people upload, read and delete them (service.md 4).

What is uploaded is untrusted content. An artifact belongs to its conversation, whoever brought it:
the user of its scope is the conversation's principal. Out of reach and missing are the same answer.

Where bytes lie outside of the database they are staged there before the transaction that keeps
them, so that a slow upload holds nothing but its request.
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
    from datetime import datetime

    from app.log.queries import Page
    from app.log.records import ConversationRecord
    from app.runctx.shapes import ArtifactRef
    from app.service.caller import Caller
    from app.service.clock import Clock
    from app.service.ports.database import Database, Session, Transaction

ARTIFACT_BYTES: Final = 25 * 1024 * 1024
PRESIGNED_FOR: Final = timedelta(minutes=5)


@dataclass(frozen=True, slots=True)
class Upload:
    """A file that somebody sends; `mime` is their word for it."""

    conversation_id: str
    content: bytes
    mime: str
    filename: str | None = None


class Shelf(Protocol):
    """Where the bytes of artifacts are brought before these are kept."""

    async def stage(self, identity: Identity, new: NewArtifact) -> None:
        """Bring the bytes of a file there. Raises StoreUnavailable."""
        ...


class Artifacts:
    """The artifacts in a caller's reach; one has at most `max_bytes`."""

    def __init__(
        self, clock: Clock, *, max_bytes: int = ARTIFACT_BYTES, shelf: Shelf | None = None
    ) -> None:
        self._clock = clock
        self._shelf = shelf
        self.max_bytes = max_bytes

    @property
    def stages(self) -> bool:
        """Whether an upload is staged before its transaction."""
        return self._shelf is not None

    async def stage(self, database: Database, caller: Caller, upload: Upload) -> str | None:
        """Bring the bytes of an upload to where they will lie; the id to keep them under.

        None where it will be refused. Raises StoreUnavailable.
        """
        if self._shelf is None or len(upload.content) > self.max_bytes:
            return None
        async with database.session(caller.tenant) as session:
            conversation = await session.conversation(upload.conversation_id)
        if conversation is None or not takes_part(caller, conversation):
            return None
        new = self._new(caller, upload, self._clock.mint("art"))
        await self._shelf.stage(_scope(conversation), new)
        return new.id

    async def upload(
        self, tx: Transaction, caller: Caller, upload: Upload, *, staged: str | None = None
    ) -> tuple[ArtifactRef, bool]:
        """Keep a file, for whoever takes part; False if the conversation has it already.

        Raises NotFound, ArtifactTooLarge, StoreUnavailable.
        """
        if len(upload.content) > self.max_bytes:
            raise ArtifactTooLarge(self.max_bytes)
        conversation = await tx.conversation(upload.conversation_id)
        if conversation is None or not takes_part(caller, conversation):
            raise NotFound("conversation")
        new = self._new(caller, upload, staged or self._clock.mint("art"))
        return await tx.put_artifact(_scope(conversation), new)

    def _new(self, caller: Caller, upload: Upload, artifact_id: str) -> NewArtifact:
        return NewArtifact(
            id=artifact_id,
            namespace="uploads",
            content=upload.content,
            mime=upload.mime,
            trust=Trust.QUARANTINED_CONTENT,
            at=self._clock.now(),
            by=caller.principal,
            filename=upload.filename,
        )

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

    async def content(
        self, session: Session, caller: Caller, artifact_id: str
    ) -> tuple[ArtifactRef, bytes]:
        """The artifact with its bytes. Raises NotFound, ArtifactCorrupt."""
        artifact = await self.read(session, caller, artifact_id)
        content = await session.artifact_content(artifact)
        if content is None:
            raise NotFound("artifact")
        return artifact, content

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
