"""A form with a file, read as it comes in: up to its file, through that, and on to its end.

Nothing of the file is kept here. It is the only file, beside it there is one short field at most,
and what stands around both is bounded, so that a form takes no more memory than a header does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header

from app.runctx.mime import OCTETS
from app.service.refusals import FieldFault, RequestInvalid

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from python_multipart.multipart import MultipartCallbacks

# What a form may have around its file: boundaries, headers, one short field.
AROUND_BYTES: Final = 16 * 1024


class FileForm:
    """A form; `filename`, `mime` and `fields` are what has been read of it so far."""

    def __init__(self, content_type: str, chunks: AsyncIterator[bytes]) -> None:
        """Raises RequestInvalid for a Content-Type without a sound boundary."""
        self.filename = ""
        self.mime = OCTETS
        self.fields: dict[str, str] = {}
        self._chunks = chunks
        self._around = 0
        self._headers: dict[bytes, bytes] = {}
        self._header = b"", b""
        self._field: str | None = None
        self._value = b""
        self._file: list[bytes] = []
        self._has_file = False
        self._has_ended = False
        try:
            self._parser = MultipartParser(_boundary(content_type), self._callbacks())
        except FormParserError as error:
            raise _invalid(_NO_FORM) from error

    async def open(self) -> None:
        """Read up to the bytes of the file. Raises RequestInvalid where there is none."""
        async for chunk in self._chunks:
            self._write(chunk)
            if self._has_file:
                return
        raise _invalid(_NO_FILE)

    async def content(self) -> AsyncIterator[bytes]:
        """The bytes of the file, and then the form is read to its end. Raises RequestInvalid."""
        is_empty = True
        while True:
            taken, self._file = self._file, []
            for data in taken:
                is_empty = False
                yield data
            chunk = await anext(self._chunks, None)
            if chunk is None:
                break
            self._write(chunk)
        if not self._has_ended:
            raise _invalid("is a form without its end")
        if is_empty:
            raise _invalid(_NO_FILE)

    def _write(self, chunk: bytes) -> None:
        self._around += len(chunk)
        try:
            self._parser.write(chunk)
        except FormParserError as error:
            raise _invalid(_NO_FORM) from error
        self._around -= sum(map(len, self._file))
        if self._around > AROUND_BYTES:
            raise _invalid(f"a form has at most {AROUND_BYTES} bytes around its file")

    def _callbacks(self) -> MultipartCallbacks:
        return {
            "on_header_field": self._on_header_name,
            "on_header_value": self._on_header_value,
            "on_header_end": self._on_header_end,
            "on_headers_finished": self._on_headers_end,
            "on_part_data": self._on_data,
            "on_part_end": self._on_part_end,
            "on_end": self._on_end,
        }

    def _on_header_name(self, data: bytes, start: int, end: int) -> None:
        name, value = self._header
        self._header = name + data[start:end], value

    def _on_header_value(self, data: bytes, start: int, end: int) -> None:
        name, value = self._header
        self._header = name, value + data[start:end]

    def _on_header_end(self) -> None:
        name, value = self._header
        self._headers[name.lower()] = value
        self._header = b"", b""

    def _on_headers_end(self) -> None:
        headers, self._headers = self._headers, {}
        _, options = parse_options_header(headers.get(b"content-disposition"))
        if b"name" not in options:
            raise _invalid(_NO_FORM)
        is_file = b"filename" in options
        if self._has_file if is_file else self.fields:
            raise _invalid(_NO_FORM)
        if not is_file:
            self._field, self._value = _text(options[b"name"]), b""
            return
        self._has_file, self._field = True, None
        self.filename = _text(options[b"filename"])
        self.mime = headers.get(b"content-type", OCTETS.encode()).decode("latin-1")

    def _on_data(self, data: bytes, start: int, end: int) -> None:
        if self._field is None:
            self._file.append(data[start:end])
        else:
            self._value += data[start:end]

    def _on_part_end(self) -> None:
        if self._field is not None:
            self.fields[self._field] = _text(self._value)

    def _on_end(self) -> None:
        self._has_ended = True


_NO_FORM: Final = "the body is no form of one file and at most one field"
_NO_FILE: Final = "a form has one file, and that is not empty"


def _boundary(content_type: str) -> bytes:
    """The boundary of a form in UTF-8, as every form is. Raises RequestInvalid."""
    _, options = parse_options_header(content_type)
    if options.get(b"charset", b"utf-8").lower() not in {b"utf-8", b"utf8"}:
        raise _invalid("a form is in UTF-8")
    if b"boundary" not in options:
        raise _invalid(_NO_FORM)
    return options[b"boundary"]


def _text(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        raise _invalid("a form is in UTF-8") from error


def _invalid(detail: str) -> RequestInvalid:
    return RequestInvalid(detail, faults=(FieldFault("", detail),))
