"""Bodies: read up to their bound, and parsed strictly, once (service.md 1).

Nothing reaches a model before this: a duplicate key, NaN, nesting over 64 or a lone surrogate is
refused with its pointer, and a body over its bound is refused without being read to the end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from starlette.requests import Request
from typing_extensions import override

from app.api.problems import BodyTooLarge, MediaTypeRefused
from app.engine.json.arguments import JsonDefect, strict_loads
from app.service.refusals import FieldFault, RequestInvalid

if TYPE_CHECKING:
    from pydantic import JsonValue

JSON_TYPE: Final = "application/json"
_UTF8: Final = frozenset({"utf-8", "utf8"})


class ReadRequest(Request):
    """A request whose body was read and parsed already; the framework is handed the value."""

    def __init__(self, request: Request, raw: bytes, value: JsonValue) -> None:
        super().__init__(request.scope, request.receive)
        self._raw = raw
        self._value = value

    @override
    async def body(self) -> bytes:
        """The bytes as they came."""
        return self._raw

    @override
    async def json(self) -> Any:
        """The value they spell."""
        return self._value


async def read_body(request: Request, limit: int) -> bytes:
    """The body's bytes. Raises BodyTooLarge as soon as it is known to exceed `limit`."""
    declared = request.headers.get("content-length", "")
    if declared.isdecimal() and int(declared) > limit:
        raise BodyTooLarge(f"the body must be at most {limit} bytes")
    chunks: list[bytes] = []
    size = 0
    async for chunk in request.stream():
        size += len(chunk)
        if size > limit:
            raise BodyTooLarge(f"the body must be at most {limit} bytes")
        chunks.append(chunk)
    return b"".join(chunks)


def parse_json(request: Request, raw: bytes) -> JsonValue:
    """The value of a JSON body. Raises MediaTypeRefused and RequestInvalid."""
    if not _is_json(request.headers.get("content-type", "")):
        raise MediaTypeRefused(f"the body must have Content-Type {JSON_TYPE}")
    try:
        return strict_loads(raw)
    except JsonDefect as defect:
        raise RequestInvalid(
            f"the body is refused {defect.defect}",
            faults=(FieldFault(defect.pointer, defect.defect),),
        ) from defect


def _is_json(content_type: str) -> bool:
    if content_type == JSON_TYPE:
        return True
    media_type, *parameters = (part.strip() for part in content_type.lower().split(";"))
    charsets = [p.removeprefix("charset=").strip('"') for p in parameters if "charset=" in p]
    return media_type == JSON_TYPE and all(charset in _UTF8 for charset in charsets)
