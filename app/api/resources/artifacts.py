"""Artifacts: upload, read, download, list, delete (service.md 4).

A file is handed out as a download that no browser opens by itself, under the type it was declared
with only if its bytes do not say otherwise.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Annotated, Any, Final
from urllib.parse import quote

from fastapi import Header, Query, Response
from pydantic import JsonValue
from starlette.requests import Request
from starlette.responses import StreamingResponse
from typing_extensions import override

from app.api.door import BrokenOff
from app.api.edge import Call, Reading, Writing
from app.api.idempotency import fingerprinting
from app.api.paging import Cursor, Limit, cut_page, page_of
from app.api.ranges import part_of
from app.api.routes import PREPARED, Endpoint, Prepared, ReadRoute, Routes, WriteRoute
from app.api.tags import UNCHANGED, IfNoneMatch, not_modified, tag_of
from app.api.uploads import FORM, Filename, Received, destination, upload_body
from app.api.wire import Document, Time
from app.errors import ArtifactGone
from app.log.envelope import wire_time
from app.runctx.mime import OCTETS, served_type
from app.runctx.shapes import ArtifactRef
from app.service.refusals import NotFound

routes = Routes(tags=["artifacts"])

_FILE: Final = {"type": "string", "format": "binary"}
_BODY: Final[dict[str, Any]] = {
    "required": True,
    "content": {
        OCTETS: {"schema": _FILE},
        FORM: {"schema": {"$ref": "#/components/schemas/ArtifactForm"}},
    },
}
_CONTENT: Final[dict[int | str, dict[str, Any]]] = {
    200: {"description": "The file", "content": {OCTETS: {"schema": _FILE}}},
    206: {"description": "The part asked for", "content": {OCTETS: {"schema": _FILE}}},
    **UNCHANGED,
}

ConversationId = Annotated[str, Query(max_length=255, pattern=r"^[^\x00]+$")]

AskedRange = Annotated[str | None, Header(alias="Range", description="`bytes=FIRST-LAST`: a part")]
IfRange = Annotated[
    str | None, Header(description="The ETag of the file that the part is to be of; else all of it")
]


class Artifact(Document):
    """A file of a conversation; `mime` is what it was declared as."""

    id: str
    conversation_id: str
    mime: str
    size_bytes: int
    sha256: str
    filename: str | None
    trust: str
    created_at: Time


class ArtifactList(Document):
    """A page of artifacts, newest first."""

    items: list[Artifact]
    next_cursor: str | None


class Presigned(Document):
    """A URL that reads an artifact's bytes, for whoever has it, until `expires_at`."""

    url: str
    expires_at: Time


class UploadRoute(WriteRoute):
    """Its body is a file of any type, which is taken in before the transaction begins.

    What makes two uploads the same is known at their end, so one that is repeated is taken in too.
    """

    @override
    async def read(self, request: Request, *, takes_body: bool) -> tuple[bytes, JsonValue]:
        """Nothing: the body is read where it is taken in."""
        return b"", None

    @override
    async def serve(self, request: Request, call: Call, endpoint: Endpoint) -> Response:
        """Take the file in, and answer within one transaction; what that does not keep is let go.

        A file that its conversation would not take is refused before it is read. Raises
        ArtifactTooLarge, RequestInvalid, MediaTypeRefused, NotFound.
        """
        artifacts, claim = call.edge.artifacts, call.claim
        digest = None if claim is None else fingerprinting(request)
        body = await upload_body(request, most=artifacts.max_bytes, digest=digest)
        into = destination(request.query_params.get("conversation_id"), body)
        if into is not None:
            async with call.edge.database.session(call.caller.tenant) as session:
                await artifacts.destination(session, call.caller, into)
        async with artifacts.staging(call.caller, body.content(), mime=body.mime) as staged:
            request.scope[PREPARED] = Received(body, staged)
            if claim is not None and digest is not None:
                call = replace(call, claim=replace(claim, fingerprint=digest.hexdigest()))
            return await super().serve(request, call, endpoint)


class ContentRoute(ReadRoute):
    """Its answer is a file, which has the type it has."""

    @override
    def require_acceptable(self, request: Request) -> None:
        """Whoever asks for a file takes it as it is."""


@routes.write(
    "POST",
    "/v1/artifacts",
    "create_artifact",
    scope="artifacts:write",
    status_code=201,
    kind=UploadRoute,
    openapi_extra={"requestBody": _BODY},
    responses={200: {"model": Artifact, "description": "The conversation has these bytes already"}},
)
async def create_artifact(
    call: Writing,
    response: Response,
    received: Prepared,
    conversation_id: ConversationId | None = None,
    filename: Annotated[Filename | None, Query()] = None,
) -> Artifact:
    """Upload a file to a conversation: as the raw body, or as the one file of a form."""
    upload = received.upload(conversation_id, filename)
    artifact, is_new = await call.edge.artifacts.upload(call.tx, call.caller, upload)
    response.status_code = 201 if is_new else 200
    response.headers["Location"] = f"/v1/artifacts/{artifact.id}"
    return _artifact_document(artifact)


@routes.read("/v1/artifacts", "list_artifacts", scope="runs:read")
async def list_artifacts(
    call: Reading, conversation_id: ConversationId, *, limit: Limit = 50, cursor: Cursor = None
) -> ArtifactList:
    """The artifacts of a conversation, newest first."""
    found = await call.edge.artifacts.page(
        call.session, call.caller, page_of(limit, cursor), conversation_id=conversation_id
    )
    shown, more = cut_page(found, limit, lambda artifact: artifact.id)
    return ArtifactList(items=[_artifact_document(item) for item in shown], next_cursor=more)


@routes.read("/v1/artifacts/{artifact_id}", "get_artifact", scope="runs:read")
async def get_artifact(call: Reading, artifact_id: str) -> Artifact:
    """One artifact, without its bytes."""
    return _artifact_document(
        await call.edge.artifacts.read(call.session, call.caller, artifact_id)
    )


@routes.read(
    "/v1/artifacts/{artifact_id}/content",
    "get_artifact_content",
    scope="runs:read",
    kind=ContentRoute,
    response_class=Response,
    responses=_CONTENT,
)
async def get_artifact_content(
    call: Reading,
    artifact_id: str,
    *,
    asked: AskedRange = None,
    if_range: IfRange = None,
    if_none_match: IfNoneMatch = None,
) -> Response:
    """The bytes of an artifact, or one range of them, as a download."""
    artifacts = call.edge.artifacts
    artifact = await artifacts.read(call.session, call.caller, artifact_id)
    unchanged = not_modified(if_none_match, artifact.sha256)
    if unchanged is not None:
        return unchanged
    size = artifact.size_bytes
    part = part_of(size, asked) if if_range in {None, tag_of(artifact.sha256)} else None
    shown = range(size) if part is None else part
    headers = _download_headers(artifact)
    if part is not None:
        headers["Content-Range"] = f"bytes {part[0]}-{part[-1]}/{size}"
    status = 200 if part is None else 206
    pieces = artifacts.pieces(artifact, shown)
    # A first piece that is missing or altered is a problem; a later one can only break the answer.
    first = await anext(pieces, None)
    if first is None:
        raise NotFound("artifact")
    if len(first) == len(shown):
        return Response(first, status_code=status, headers=headers)
    headers["Content-Length"] = str(len(shown))
    return StreamingResponse(_all(first, pieces), status_code=status, headers=headers)


@routes.read("/v1/artifacts/{artifact_id}/presigned", "presign_artifact", scope="runs:read")
async def presign_artifact(call: Reading, artifact_id: str) -> Presigned:
    """A URL that reads the bytes from the bucket itself, without a token, for five minutes."""
    url, until = await call.edge.artifacts.presigned(call.session, call.caller, artifact_id)
    return Presigned(url=url, expires_at=wire_time(until))


@routes.write(
    "DELETE",
    "/v1/artifacts/{artifact_id}",
    "delete_artifact",
    scope="artifacts:write",
    status_code=204,
)
async def delete_artifact(call: Writing, artifact_id: str) -> None:
    """Delete an artifact; what the log says of it stays."""
    await call.edge.artifacts.delete(call.tx, call.caller, artifact_id)


def _download_headers(artifact: ArtifactRef) -> dict[str, str]:
    return {
        "Content-Type": served_type(artifact.mime, artifact.sniffed),
        "Content-Disposition": disposition(artifact.filename or artifact.id),
        "X-Content-Type-Options": "nosniff",
        "Content-Security-Policy": "default-src 'none'; sandbox",
        "Cross-Origin-Resource-Policy": "same-origin",
        "ETag": tag_of(artifact.sha256),
        "Accept-Ranges": "bytes",
    }


async def _all(first: bytes, others: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    yield first
    try:
        async for piece in others:
            yield piece
    except ArtifactGone as gone:
        raise BrokenOff("the artifact was deleted") from gone


def _artifact_document(artifact: ArtifactRef) -> Artifact:
    """How an artifact is shown."""
    return Artifact(
        id=artifact.id,
        conversation_id=artifact.identity.session,
        mime=artifact.mime,
        size_bytes=artifact.size_bytes,
        sha256=artifact.sha256,
        filename=artifact.filename,
        trust=artifact.trust.wire,
        created_at=wire_time(artifact.created_at),
    )


def disposition(name: str) -> str:
    """The Content-Disposition of a download: a plain name, and the exact one (RFC 6266)."""
    plain = "".join(c if c.isascii() and (c.isalnum() or c in "._- ") else "_" for c in name)
    return f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(name, safe='')}"
