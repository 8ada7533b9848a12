"""Artifacts: files of a conversation, as its people upload, read and delete them (service.md 4).

What is uploaded is untrusted content. An artifact belongs to its conversation, whoever brought it:
the user of its scope is the conversation's principal. Out of reach and missing are the same answer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from app.ids import Identity
from app.policy.taint import Trust
from app.runctx.shapes import NewArtifact
from app.service.reach import takes_part, visible_conversation
from app.service.refusals import ArtifactTooLarge, NotFound

if TYPE_CHECKING:
    from app.log.queries import Page
    from app.runctx.shapes import ArtifactRef
    from app.service.caller import Caller
    from app.service.clock import Clock
    from app.service.ports import Session, Transaction

ARTIFACT_BYTES: Final = 25 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Upload:
    """A file that somebody sends; `mime` is their word for it."""

    conversation_id: str
    content: bytes
    mime: str
    filename: str | None = None


class Artifacts:
    """The artifacts in a caller's reach; one has at most `max_bytes`."""

    def __init__(self, clock: Clock, *, max_bytes: int = ARTIFACT_BYTES) -> None:
        self._clock = clock
        self.max_bytes = max_bytes

    async def upload(
        self, tx: Transaction, caller: Caller, upload: Upload
    ) -> tuple[ArtifactRef, bool]:
        """Keep a file, for whoever takes part; False if the conversation has it already.

        Raises NotFound, ArtifactTooLarge.
        """
        if len(upload.content) > self.max_bytes:
            raise ArtifactTooLarge(self.max_bytes)
        conversation = await tx.conversation(upload.conversation_id)
        if conversation is None or not takes_part(caller, conversation):
            raise NotFound("conversation")
        new = NewArtifact(
            id=self._clock.mint("art"),
            namespace="uploads",
            content=upload.content,
            mime=upload.mime,
            trust=Trust.QUARANTINED_CONTENT,
            at=self._clock.now(),
            by=caller.principal,
            filename=upload.filename,
        )
        scope = Identity(caller.tenant, conversation.principal, conversation.id)
        return await tx.put_artifact(scope, new)

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
