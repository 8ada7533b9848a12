from __future__ import annotations

import json
from dataclasses import dataclass
from types import MappingProxyType

import pytest

from app.engine.document import read_document, write_document, write_document_text
from app.engine.errors import InvalidRunDocument, UnsupportedRunFormat
from app.engine.json.text import MAX_DEPTH, JsonValue
from app.engine.messages import AssistantText
from app.engine.value import Value


class Note(Value):
    """A value to store."""

    text: AssistantText | None = None
    value: JsonValue


NOTE = Note(text=AssistantText(text="é"), value={"a": [1, None, 1.5]})
WRITTEN: dict[str, object] = {
    "format": 1,
    "kind": "note",
    "text": {"type": "text", "text": "é", "additional_params": None},
    "value": {"a": [1, None, 1.5]},
}


def nested(depth: int) -> object:
    value: object = 1
    for _ in range(depth):
        value = [value]
    return value


def test_a_value_is_written_with_its_format_and_kind_and_every_null() -> None:
    assert write_document("note", NOTE) == WRITTEN
    assert json.loads(write_document_text("note", NOTE)) == WRITTEN


@pytest.mark.parametrize(
    "data",
    [WRITTEN, MappingProxyType(WRITTEN), json.dumps(WRITTEN), json.dumps(WRITTEN).encode()],
    ids=["dict", "mapping", "text", "bytes"],
)
def test_what_was_written_is_read_back(data: object) -> None:
    assert read_document(data, "note", model=Note) == NOTE


def test_a_text_that_begins_as_it_is_written_is_checked_to_its_end() -> None:
    text = write_document_text("note", NOTE)
    assert read_document(text, "note", model=Note) == NOTE
    assert read_document(text.encode(), "note", model=Note) == NOTE
    assert read_document(text.replace("1.5", "1.50"), "note", model=Note) == NOTE
    wrong = (
        text.encode().replace("é".encode(), b"\xe9"),
        text.replace("é", "\ud800"),
        text.replace("1.5", "1.5,"),
        text.replace('"text":"é"', '"text":7'),
        text.replace(',"additional_params":null', ""),
        text.replace("1.5", "NaN"),
        text + "}",
    )
    for each in wrong:
        with pytest.raises(InvalidRunDocument):
            read_document(each, "note", model=Note)


def test_the_deepest_value_survives() -> None:
    deep = Note(value=nested(MAX_DEPTH))
    assert read_document(write_document("note", deep), "note", model=Note) == deep


@dataclass(frozen=True)
class Case:
    id: str
    data: object
    message: str


def changed(**changes: object) -> dict[str, object]:
    return {**WRITTEN, **changes}


def without(key: str) -> dict[str, object]:
    return {name: value for name, value in WRITTEN.items() if name != key}


@pytest.mark.parametrize(
    "case",
    [
        Case("no-json", "{", "a document is a JSON object"),
        Case("no-utf-8", b"\xff", "a document is a JSON object"),
        Case("no-object", "[1]", "a document is a JSON object"),
        Case("no-document", None, "a document is a JSON object"),
        Case("not-a-json-value", changed(value=object()), "a document is a JSON object"),
        Case("too-deep", "[" * 100_000, "a document is a JSON object"),
        Case("no-format", without("format"), "format: expected an integer"),
        Case("text-format", changed(format="1"), "format: expected an integer"),
        Case("boolean-format", changed(format=True), "format: expected an integer"),
        Case("fraction-format", changed(format=1.0), "format: expected an integer"),
        Case("other-kind", changed(kind="run"), "kind: expected 'note'"),
        Case("no-kind", without("kind"), "kind: expected 'note'"),
        Case("missing-with-default", without("text"), "text: missing"),
        Case("missing", without("value"), "value: Field required"),
        Case("unknown", changed(extra=1), "extra: Extra inputs"),
        Case("wrong-type", changed(text=1), "text: "),
        Case(
            "missing-inside",
            changed(text={"type": "text", "text": "a"}),
            "text/additional_params: missing",
        ),
        Case(
            "normalised-inside",
            changed(text={"type": "text", "text": "a", "additional_params": {}}),
            "text/additional_params: missing or not as it is written",
        ),
    ],
    ids=lambda case: case.id,
)
def test_what_was_never_written_is_refused_with_its_path(case: Case) -> None:
    """A164"""
    with pytest.raises(InvalidRunDocument, match=case.message):
        read_document(case.data, "note", model=Note)


@pytest.mark.parametrize("number", [0, 2, -1])
def test_another_format_is_refused_by_its_number(number: int) -> None:
    """A164"""
    message = f"run format {number} cannot be loaded: this engine reads format 1"
    with pytest.raises(UnsupportedRunFormat, match=message):
        read_document(changed(format=number), "note", model=Note)


def test_lists_of_another_length_differ() -> None:
    class Names(Value):
        names: tuple[AssistantText, ...]

    part = {"type": "text", "text": "a"}
    with pytest.raises(InvalidRunDocument, match="names/1/additional_params"):
        read_document(
            {
                "format": 1,
                "kind": "names",
                "names": [{**part, "additional_params": None}, part],
            },
            "names",
            model=Names,
        )
