"""Documents: what a run or an assembler is stored as (agent-run.md 12).

A document is a JSON object with `format` and `kind` and the fields of one model. It is read only if
it is exactly what would be written: no key missing, no key more, nothing defaulted, nothing
coerced. That is checked by writing what was read and comparing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final, TypeVar

from pydantic import ValidationError

from app.engine.errors import InvalidRunDocument, UnsupportedRunFormat
from app.engine.json.text import MAX_DEPTH, FrozenObject, compact_json, freeze
from app.engine.value import Value

FORMAT: Final = 1
# A value of the greatest depth lies at most this much deeper within a document.
_MAX_DOCUMENT_DEPTH: Final = MAX_DEPTH + 32
_V = TypeVar("_V", bound=Value)


def write_document(kind: str, value: Value) -> dict[str, object]:
    """The document of a value, in plain JSON types."""
    return {"format": FORMAT, "kind": kind, **value.model_dump(mode="json")}


def write_document_text(kind: str, value: Value) -> str:
    """The same document as text; several times faster than writing the text of the dict."""
    return f"{_head(kind)},{value.model_dump_json()[1:]}"


def read_document(data: object, kind: str, *, model: type[_V]) -> _V:
    """The value of a document, given as JSON text or as a mapping.

    Raises `UnsupportedRunFormat` for another format, `InvalidRunDocument` for all else.
    """
    if isinstance(data, str | bytes):
        known = _as_it_is_written(data, kind, model=model)
        if known is not None:
            return known
    document = _object(data)
    _require_format(document, kind)
    body = {key: value for key, value in document.items() if key not in {"format", "kind"}}
    try:
        value = model.model_validate_json(compact_json(body))
    except ValidationError as error:
        raise InvalidRunDocument(_first_fault(error)) from error
    difference = _first_difference(value.model_dump(mode="json"), body, path=())
    if difference is not None:
        raise InvalidRunDocument(f"{'/'.join(difference)}: missing or not as it is written")
    return value


def _as_it_is_written(data: str | bytes, kind: str, *, model: type[_V]) -> _V | None:
    """The value of a text that is to the byte what it is written as; None if it may be wrong.

    Most are, and this is several times faster than comparing them value by value.
    """
    raw = data if isinstance(data, bytes) else data.encode(errors="surrogatepass")
    head = f"{_head(kind)},".encode()
    if not raw.startswith(head):
        return None
    try:
        value = model.model_validate_json(b"{" + raw[len(head) :])
    except ValidationError:
        return None
    return value if write_document_text(kind, value).encode() == raw else None


def _head(kind: str) -> str:
    """How the text of each document of that kind begins."""
    return compact_json({"format": FORMAT, "kind": kind})[:-1]


def _object(data: object) -> FrozenObject:
    try:
        value = json.loads(data) if isinstance(data, str | bytes) else data
        plain = dict(value) if isinstance(value, Mapping) else value
        document = freeze(plain, _MAX_DOCUMENT_DEPTH)
    except (ValueError, RecursionError) as error:
        raise InvalidRunDocument(f"a document is a JSON object: {error}") from error
    if not isinstance(document, FrozenObject):
        raise InvalidRunDocument("a document is a JSON object")
    return document


def _require_format(document: FrozenObject, kind: str) -> None:
    number = document.get("format")
    if not isinstance(number, int) or isinstance(number, bool):
        raise InvalidRunDocument("format: expected an integer")
    if number != FORMAT:
        raise UnsupportedRunFormat(
            f"run format {number} cannot be loaded: this engine reads format {FORMAT}"
        )
    if document.get("kind") != kind:
        raise InvalidRunDocument(f"kind: expected {kind!r}")


def _first_fault(error: ValidationError) -> str:
    fault = error.errors(include_url=False, include_input=False)[0]
    return f"{'/'.join(str(step) for step in fault['loc'])}: {fault['msg']}"


def _first_difference(
    written: object, given: object, *, path: tuple[str, ...]
) -> tuple[str, ...] | None:
    """The path to the first place where two JSON values differ."""
    if isinstance(written, dict) and isinstance(given, dict):
        for key in sorted(written.keys() | given.keys()):
            if key not in written or key not in given:
                return (*path, key)
            if found := _first_difference(written[key], given[key], path=(*path, key)):
                return found
        return None
    if isinstance(written, list) and isinstance(given, list) and len(written) == len(given):
        for index, pair in enumerate(zip(written, given, strict=True)):
            if found := _first_difference(*pair, path=(*path, str(index))):
                return found
        return None
    return None if written == given and type(written) is type(given) else path
