"""Artifacts: upload, read, download, list, delete (service.md 4).

A file is handed out as a download that no browser opens by itself, under the type it was declared
with only if its bytes do not say otherwise.
"""

from __future__ import annotations

from typing import Annotated, Any, Final
from urllib.parse import quote

from fastapi import Header, Query, Response
from pydantic import JsonValue
from starlette.requests import Request
from typing_extensions import override

from app.api.edge import Call, Reading, Writing, edge_of
from app.api.paging import Cursor, Limit, cut_page, page_of
from app.api.problems import MediaTypeRefused
from app.api.ranges import part_of
from app.api.routes import Prepared, PreparedRoute, ReadRoute, Routes
from app.api.uploads import FORM, Filename, read_upload, upload_of
from app.api.wire import Document, Time
from app.log.envelope import wire_time
from app.runctx.mime import OCTETS, served_type
from app.runctx.shapes import ArtifactRef
from app.service.refusals import RequestInvalid

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


class UploadRoute(PreparedRoute):
    """Its body is a file of any type, bounded by what an artifact may have."""

    @override
    async def read(self, request: Request, *, takes_body: bool) -> tuple[bytes, JsonValue]:
        """The bytes as they came. Raises ArtifactTooLarge."""
        return await read_upload(request, edge_of(request).artifacts.max_bytes), None

    @override
    def prepares(self, call: Call) -> bool:
        """Only bytes that do not lie in the database."""
        return call.edge.artifacts.stages

    @override
    async def prepared(self, request: Request, call: Call) -> object:
        """The id under which the bytes were staged; what will be refused never is."""
        artifacts, query = call.edge.artifacts, request.query_params
        try:
            upload = await upload_of(request, query.get("conversation_id"), query.get("filename"))
        except (RequestInvalid, MediaTypeRefused):
            return None
        return await artifacts.stage(call.edge.database, call.caller, upload)


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
    request: Request,
    response: Response,
    staged: Prepared,
    conversation_id: ConversationId | None = None,
    filename: Annotated[Filename | None, Query()] = None,
) -> Artifact:
    """Upload a file to a conversation: as the raw body, or as the one file of a form."""
    upload = await upload_of(request, conversation_id, filename)
    artifact, is_new = await call.edge.artifacts.upload(call.tx, call.caller, upload, staged=staged)
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
    call: Reading, artifact_id: str, *, asked: AskedRange = None, if_range: IfRange = None
) -> Response:
    """The bytes of an artifact, or one range of them, as a download."""
    artifact, content = await call.edge.artifacts.content(call.session, call.caller, artifact_id)
    size, tag = len(content), f'"{artifact.sha256}"'
    part = part_of(size, asked) if if_range in {None, tag} else None
    headers = {
        "Content-Type": served_type(artifact.mime, artifact.sniffed),
        "Content-Disposition": disposition(artifact.filename or artifact.id),
        "X-Content-Type-Options": "nosniff",
        "Content-Security-Policy": "default-src 'none'; sandbox",
        "Cross-Origin-Resource-Policy": "same-origin",
        "ETag": tag,
        "Accept-Ranges": "bytes",
    }
    if part is None:
        return Response(content, headers=headers)
    headers["Content-Range"] = f"bytes {part[0]}-{part[-1]}/{size}"
    return Response(content[part.start : part.stop], status_code=206, headers=headers)


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
