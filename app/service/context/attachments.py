"""The attachments of a run: read from its conversation, kept without their bytes, sent as parts.

A file is the conversation's, whoever brought it. Bytes go along in the first step of a run alone; a
worker that resumes inside it reads them again, and one that is gone becomes a reference
(run-context.md 1, 3.7, 4.5).
"""

from __future__ import annotations

import base64
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import structlog

from app.engine.messages import UserAudio, UserDocument, UserImage, UserText
from app.log.attachments import AttachmentResolved
from app.log.envelope import NewEvent
from app.log.queries import Page
from app.policy.taint import Trust, highest
from app.runctx.attach import (
    InputResolved,
    InputSkipped,
    reaches_model,
    trusted_upload,
)
from app.runctx.disposition import INLINE, REF, disposition_hints
from app.runctx.identity import require_identity
from app.runctx.input_parts import MediaPart, TextPart, parts_of, text_stub
from app.runctx.mime import OCTETS, media_type
from app.runctx.shapes import InputArtifactView
from app.service.reach import is_part_of
from app.turn.agent import Attachments
from app.turn.native_files import NativeFile

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pydantic import JsonValue

    from app.engine.messages import UserContent
    from app.ids import Identity
    from app.runctx.disposition import Disposition
    from app.runctx.input_parts import Part
    from app.runctx.ports import ArtifactReader, ToolCatalog
    from app.runctx.shapes import ArtifactRef
    from app.service.agents.binding import Bound
    from app.service.ports.database import Database, Session

# A manifest counts the files beyond those that it names, up to here.
COUNTED_FILES: Final = 1000
Reading = Callable[[str], Awaitable[bytes | None]]

_MEDIA: Final = {"image": UserImage, "audio": UserAudio, "file": UserDocument}
_READS_TEXT: Final = "artifact_read"
_TEXTUAL: Final = frozenset({"application/json", "application/xml", "application/yaml"})

log = structlog.get_logger("turngate.inputs")


@dataclass(frozen=True, slots=True)
class ConversationFiles:
    """The files of one conversation, as a run of somebody in it reads them.

    They are kept for the conversation's principal, whoever brought them and whoever runs; for those
    who do not take part there are none. With `trusts_uploads` what people uploaded is as trusted as
    what they say.
    """

    session: Session
    trusts_uploads: bool = False

    async def get_ref(self, identity: Identity, artifact_id: str) -> ArtifactRef | None:
        """The file without its bytes. Raises IdentityRequired."""
        require_identity(identity, log, "artifact.identity_rejected")
        ref = await self.session.artifact(artifact_id)
        if ref is None or not await self._of([ref], identity):
            return None
        return trusted_upload(ref) if self.trusts_uploads else ref

    async def get(self, identity: Identity, artifact_id: str) -> bytes | None:
        """The bytes. Raises ArtifactCorrupt, IdentityRequired."""
        ref = await self.get_ref(identity, artifact_id)
        return None if ref is None else await self.session.artifact_content(ref)

    async def _of(self, refs: Sequence[ArtifactRef], identity: Identity) -> list[ArtifactRef]:
        """Those of the conversation's own scope, for somebody who takes part in it."""
        conversation = await self.session.conversation(identity.session) if refs else None
        if conversation is None or not is_part_of(identity.user, conversation):
            return []
        scope = identity.tenant, conversation.principal, conversation.id
        return [ref for ref in refs if _triple(ref.identity) == scope]

    async def list(self, identity: Identity) -> list[ArtifactRef]:
        """The conversation's files, newest first; beyond a thousand the oldest are left out."""
        require_identity(identity, log, "artifact.identity_rejected")
        refs = await self.session.artifacts(identity.session, Page(limit=COUNTED_FILES))
        return await self._of(refs, identity)


@dataclass(frozen=True, slots=True)
class RunTools:
    """The tools of a run, as far as an attachment is concerned."""

    bound: Bound

    def schemas(self, _scopes: object) -> Sequence[JsonValue]:
        """None: the turn pins the specs itself."""
        return ()

    def owns(self, name: str) -> bool:
        """Whether the run has the tool."""
        return self.bound.executor.owns(name)

    def reader_of(self, kind: str) -> str | None:
        """`artifact_read`, if the agent names it, for what is text by its type."""
        is_textual = kind.startswith("text/") or kind in _TEXTUAL
        return _READS_TEXT if is_textual and _READS_TEXT in self.bound.spec.tools else None


def hints_of(attached: Sequence[Mapping[str, Any]]) -> dict[str, Disposition] | None:
    """What the callers of a run asked for, by artifact; of one named twice the first counts."""
    hints: dict[str, str] = {}
    for one in attached:
        hints.setdefault(one["artifact_id"], one.get("disposition") or "")
    return disposition_hints(hints)


def attachment_events(
    facts: Sequence[InputResolved | InputSkipped], *, run_id: str, turn_id: str
) -> Iterator[NewEvent]:
    """An `attachment.resolved` for each that was found, tagged with what reaches the model."""
    for fact in facts:
        if isinstance(fact, InputResolved):
            told = AttachmentResolved.model_validate({**asdict(fact), "trust": fact.trust.wire})
            trust = fact.trust if reaches_model(fact) else Trust.UNSPECIFIED
            yield NewEvent(told, run_id=run_id, turn_id=turn_id, trust=trust)


def skipped(facts: Sequence[InputResolved | InputSkipped]) -> tuple[dict[str, JsonValue], ...]:
    """The attachments that are not there, for `context.assembled`."""
    return tuple(
        {"artifact_id": fact.artifact_id, "reason": fact.reason}
        for fact in facts
        if isinstance(fact, InputSkipped)
    )


def trust_of(views: Sequence[InputArtifactView]) -> Trust:
    """The join over what reaches the model."""
    return highest(view.trust for view in views if reaches_model(view))


def kept_views(views: Sequence[InputArtifactView]) -> list[dict[str, object]]:
    """The views as they are kept beside `context.assembled`: without their bytes."""
    return [
        {name: one for name, one in asdict(view).items() if name != "content"} for view in views
    ]


def views_kept(stored: Sequence[Mapping[str, Any]]) -> tuple[InputArtifactView, ...]:
    """The views that were kept."""
    return tuple(
        InputArtifactView(**{**one, "trust": Trust.from_byte(one["trust"])}) for one in stored
    )


def _triple(identity: Identity) -> tuple[str, str, str]:
    return identity.tenant, identity.user, identity.session


async def with_bytes(
    views: Sequence[InputArtifactView], files: ArtifactReader, identity: Identity
) -> tuple[InputArtifactView, ...]:
    """The views with the bytes of those that go inline; one whose bytes are gone is referred to."""
    return tuple([await _with_bytes(view, files, identity) for view in views])


async def _with_bytes(
    view: InputArtifactView, files: ArtifactReader, identity: Identity
) -> InputArtifactView:
    if view.disposition != INLINE or view.content is not None:
        return view
    try:
        content = await files.get(identity, view.id)
    except Exception:  # noqa: BLE001 - as in 3.7: a reference stands for the bytes
        content = None
    if not content:
        reason = "bytes_unavailable"
        log.warning("inputs.resolved", run=identity.run, artifact=view.id, reason=reason)
        return replace(view, disposition=REF)
    return replace(view, content=content)


@dataclass(frozen=True, slots=True)
class RunFiles:
    """The files of a run's conversation, for whenever their bytes are wanted."""

    database: Database
    identity: Identity

    async def read(self, artifact_id: str) -> bytes | None:
        """The bytes. Raises ArtifactCorrupt, StoreUnavailable."""
        async with self.database.session(self.identity.tenant) as session:
            return await ConversationFiles(session).get(self.identity, artifact_id)


def attachments(
    views: Sequence[InputArtifactView], catalog: ToolCatalog, *, identity: Identity, read: Reading
) -> Attachments | None:
    """What stands after the run's input: in its first step, and in all later ones."""
    if not views:
        return None
    parts = parts_of(views, catalog)
    native = {
        part.view.id: NativeFile(
            id=part.view.id,
            identity=identity.session_scope(),
            media_type=media_type(part.view.mime) or OCTETS,
            filename=part.view.filename,
            sha256=part.view.sha256,
            stub="" if part.kind == "image" else text_stub(part.view, catalog),
            read=partial(read, part.view.id),
        )
        for part in parts
        if isinstance(part, MediaPart) and part.is_native
    }
    return Attachments(
        opening=tuple(_contents(parts, native)),
        later=tuple(UserText(text=text_stub(view, catalog)) for view in views),
        files=tuple(native.values()),
    )


def _contents(parts: Sequence[Part], native: Mapping[str, NativeFile]) -> Iterator[UserContent]:
    """The parts in the engine's form; a file without bytes is left to the stub beside it."""
    for part in parts:
        if isinstance(part, TextPart):
            yield UserText(text=part.text)
        elif part.is_native:
            kind, source = media_type(part.view.mime), native[part.view.id].source
            yield _MEDIA[part.kind](media_type=kind, source=source)
        elif part.view.content is not None:
            yield _image(part.view, part.view.content)


def _image(view: InputArtifactView, content: bytes) -> UserImage:
    kind = media_type(view.mime)
    source = f"data:{kind};base64,{base64.b64encode(content).decode()}"
    return UserImage(media_type=kind, source=source)
