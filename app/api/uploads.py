"""Uploads: a file as the raw body, or as the one file of a form (service.md 4).

A body is read as it comes, and never held. The bound holds meanwhile, whatever its Content-Length
says. Names are checked, never repaired: what could leave a header, a folder or a line is refused.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Final, Protocol

from pydantic import AfterValidator, Field, TypeAdapter, ValidationError

from app.api.forms import AROUND_BYTES, FileForm
from app.api.problems import MediaTypeRefused
from app.runctx.mime import OCTETS, media_type
from app.service.artifacts.use_cases import Upload
from app.service.refusals import ArtifactTooLarge, FieldFault, RequestInvalid

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping
    from hashlib import _Hash as Hash

    from starlette.requests import Request

    from app.runctx.shapes import Staged

FORM: Final = "multipart/form-data"
_FIELD: Final = "conversation_id"
# A form is read here and not by the framework, so the description learns of it here as well.
UPLOAD_SCHEMAS: Final[dict[str, Any]] = {
    "ArtifactForm": {
        "type": "object",
        "title": "ArtifactForm",
        "description": "An upload as a form: a file, and its conversation unless the query has it",
        "properties": {
            "file": {"type": "string", "format": "binary"},
            _FIELD: {"type": "string"},
        },
        "required": ["file"],
    }
}
_MAX_MIME_CHARS: Final = 255
_MAX_ID_CHARS: Final = 255
# The names of RFC 6838: a comma would end the header of the data URL in which an image goes along.
_TYPE: Final = re.compile(r"[a-z0-9!#$&^_.+-]+/[a-z0-9!#$&^_.+-]+")


def _one_name(name: str) -> str:
    if not name.isprintable() or "/" in name or "\\" in name or name.strip() in {"", ".", ".."}:
        raise ValueError("must be printable, and the name of a file without its folder")
    return name


Filename = Annotated[str, Field(min_length=1, max_length=255), AfterValidator(_one_name)]
_FILENAME: Final[TypeAdapter[str]] = TypeAdapter(Filename)


class UploadBody(Protocol):
    """The body of an upload: what it says of its file, and the bytes of that as they come."""

    mime: str
    filename: str
    fields: dict[str, str]

    def content(self) -> AsyncIterator[bytes]:
        """The bytes. Raises RequestInvalid where there are none."""
        ...


@dataclass(slots=True)
class _RawBody:
    mime: str
    chunks: AsyncIterator[bytes]
    filename: str = ""
    fields: dict[str, str] = field(default_factory=dict)

    async def content(self) -> AsyncIterator[bytes]:
        is_blank = True
        async for chunk in self.chunks:
            is_blank = is_blank and not chunk
            yield chunk
        if is_blank:
            raise _invalid("", "the body is blank")


async def upload_body(request: Request, *, most: int, digest: Hash | None) -> UploadBody:
    """The body, read up to its file's bytes; all that is read of it is added to the digest.

    Raises ArtifactTooLarge where it says that it has more than `most`, RequestInvalid, and
    MediaTypeRefused for a file without a media type.
    """
    mime = request.headers.get("content-type", OCTETS)
    is_form = media_type(mime) == FORM
    declared = request.headers.get("content-length", "")
    if declared.isdecimal() and int(declared) > most + (AROUND_BYTES if is_form else 0):
        raise ArtifactTooLarge(most)
    chunks = _digested(request.stream(), digest)
    if not is_form:
        return _RawBody(_sound_mime(mime), chunks)
    form = FileForm(mime, chunks)
    await form.open()
    _sound_mime(form.mime)
    return form


async def _digested(chunks: AsyncIterator[bytes], digest: Hash | None) -> AsyncIterator[bytes]:
    async for chunk in chunks:
        if digest is not None:
            digest.update(chunk)
        yield chunk


@dataclass(frozen=True, slots=True)
class Received:
    """An upload that has come in whole."""

    body: UploadBody
    staged: Staged

    def upload(self, conversation_id: str | None, filename: str | None) -> Upload:
        """The file that the request brought. Raises RequestInvalid."""
        body = self.body
        return Upload(
            _conversation(conversation_id, body.fields),
            self.staged,
            body.mime,
            filename or _sound_name(body.filename),
        )


def destination(named: str | None, body: UploadBody) -> str | None:
    """The conversation, known before the file; None where only what follows may name it.

    Raises RequestInvalid.
    """
    if named is None and not body.fields and not isinstance(body, _RawBody):
        return None
    return _conversation(named, body.fields)


def _conversation(named: str | None, texts: Mapping[str, str]) -> str:
    """The conversation of the query, or of a form's one field; the two may not differ."""
    if texts.keys() - {_FIELD}:
        raise _invalid("", f"the only field of a form is {_FIELD}")
    field = texts.get(_FIELD)
    if (found := named or field) is None or "\0" in found:
        raise _invalid(f"/query/{_FIELD}", "is missing")
    if len(found) > _MAX_ID_CHARS:
        raise _invalid(f"/query/{_FIELD}", "is longer than any id")
    if field not in {None, found}:
        raise _invalid(f"/{_FIELD}", "is another one than in the query")
    return found


def _sound_mime(mime: str) -> str:
    """The declared type as it was written. Raises MediaTypeRefused."""
    is_type = _TYPE.fullmatch(media_type(mime)) is not None
    if not is_type or not mime.isprintable() or len(mime) > _MAX_MIME_CHARS:
        raise MediaTypeRefused("the file must have a media type, such as text/plain")
    return mime


def _sound_name(name: str) -> str | None:
    """The name that a form gives its file. Raises RequestInvalid."""
    if not name:
        return None
    try:
        return _FILENAME.validate_python(name)
    except ValidationError as error:
        raise _invalid("/filename", "is no name of a file without its folder") from error


def _invalid(pointer: str, detail: str) -> RequestInvalid:
    told = f"at {pointer}: {detail}" if pointer else detail
    return RequestInvalid(told, faults=(FieldFault(pointer, detail),))
