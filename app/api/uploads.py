"""Uploads: a file as the raw body, or as the one file of a form (service.md 4).

The bound holds while the body is read, whatever its Content-Length says. Names are checked, never
repaired: what could leave a header, a folder or a line is refused.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any, Final

from pydantic import AfterValidator, Field, TypeAdapter, ValidationError
from starlette.datastructures import UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser

from app.api.bodies import read_body
from app.api.problems import BodyTooLarge, MediaTypeRefused
from app.runctx.mime import OCTETS, media_type
from app.service.context.artifacts import Upload
from app.service.refusals import ArtifactTooLarge, FieldFault, RequestInvalid

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping

    from starlette.datastructures import FormData
    from starlette.requests import Request

FORM: Final = "multipart/form-data"
# What a form may have around its file: boundaries, headers, one short field.
FORM_BYTES: Final = 16 * 1024
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
# The names of RFC 6838: a comma would end the header of the data URL in which an image goes along.
_TYPE: Final = re.compile(r"[a-z0-9!#$&^_.+-]+/[a-z0-9!#$&^_.+-]+")


def _one_name(name: str) -> str:
    if not name.isprintable() or "/" in name or "\\" in name or name.strip() in {"", ".", ".."}:
        raise ValueError("must be printable, and the name of a file without its folder")
    return name


Filename = Annotated[str, Field(min_length=1, max_length=255), AfterValidator(_one_name)]
_FILENAME: Final[TypeAdapter[str]] = TypeAdapter(Filename)


async def read_upload(request: Request, limit: int) -> bytes:
    """The body's bytes, before it is known what they hold. Raises ArtifactTooLarge."""
    around = FORM_BYTES if _is_form(request) else 0
    try:
        return await read_body(request, limit + around)
    except BodyTooLarge:
        raise ArtifactTooLarge(limit) from None


async def upload_of(request: Request, conversation_id: str | None, filename: str | None) -> Upload:
    """The file that a request brings. Raises RequestInvalid and MediaTypeRefused."""
    raw = await request.body()
    if _is_form(request):
        return await _from_form(request, raw, conversation_id, filename)
    if not raw:
        raise _invalid("", "the body is blank")
    mime = request.headers.get("content-type", OCTETS)
    return Upload(_conversation(conversation_id), raw, _sound_mime(mime), filename)


async def _from_form(
    request: Request, raw: bytes, conversation_id: str | None, filename: str | None
) -> Upload:
    form = await _parsed(request, raw)
    try:
        files = [value for value in form.values() if isinstance(value, UploadFile)]
        texts = {name: value for name, value in form.items() if isinstance(value, str)}
        content = b"" if not files else await files[0].read()
    finally:
        await form.close()
    if not content:
        raise _invalid("", "a form has one file, and that is not empty")
    return Upload(
        _conversation(conversation_id, texts),
        content,
        _sound_mime(files[0].content_type or OCTETS),
        filename or _sound_name(files[0].filename),
    )


async def _parsed(request: Request, raw: bytes) -> FormData:
    async def once() -> AsyncGenerator[bytes, None]:
        yield raw

    # The parser takes a form without an end, and loses the file that it was in the middle of.
    if not raw.rstrip().endswith(b"--"):
        raise _invalid("", "is a form without its end")
    parser = MultiPartParser(request.headers, once(), max_files=1, max_fields=1)
    try:
        return await parser.parse()
    except (MultiPartException, ValueError) as error:
        raise _invalid("", "the body is no form of one file and at most one field") from error


def _conversation(named: str | None, texts: Mapping[str, str] | None = None) -> str:
    """The conversation of the query, or of a form's one field; the two may not differ."""
    texts = texts or {}
    if texts.keys() - {_FIELD}:
        raise _invalid("", f"the only field of a form is {_FIELD}")
    field = texts.get(_FIELD)
    if (found := named or field) is None or "\0" in found:
        raise _invalid(f"/query/{_FIELD}", "is missing")
    if field not in {None, found}:
        raise _invalid(f"/{_FIELD}", "is another one than in the query")
    return found


def _sound_mime(mime: str) -> str:
    """The declared type as it was written. Raises MediaTypeRefused."""
    is_type = _TYPE.fullmatch(media_type(mime)) is not None
    if not is_type or not mime.isprintable() or len(mime) > _MAX_MIME_CHARS:
        raise MediaTypeRefused("the file must have a media type, such as text/plain")
    return mime


def _sound_name(name: str | None) -> str | None:
    """The name that a form gives its file. Raises RequestInvalid."""
    if not name:
        return None
    try:
        return _FILENAME.validate_python(name)
    except ValidationError as error:
        raise _invalid("/filename", "is no name of a file without its folder") from error


def _is_form(request: Request) -> bool:
    return media_type(request.headers.get("content-type", "")) == FORM


def _invalid(pointer: str, detail: str) -> RequestInvalid:
    told = f"at {pointer}: {detail}" if pointer else detail
    return RequestInvalid(told, faults=(FieldFault(pointer, detail),))
