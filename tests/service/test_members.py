"""Members that documents of several nouns share have one bound each."""

from __future__ import annotations

import pytest
from pydantic import JsonValue, TypeAdapter, ValidationError

from app.service.members import Metadata, Name, require_written

NAME: TypeAdapter[str] = TypeAdapter(Name)
METADATA: TypeAdapter[dict[str, JsonValue]] = TypeAdapter(Metadata)


@pytest.mark.parametrize("name", ["a", "a" * 255, "päul o'neil"])
def test_a_name_is_any_text_that_can_be_seen(name: str) -> None:
    assert NAME.validate_python(name) == name


@pytest.mark.parametrize("name", ["", "a" * 256, "a\0b", "a\nb"], ids=repr)
def test_a_name_is_neither_empty_nor_long_nor_unseen(name: str) -> None:
    with pytest.raises(ValidationError):
        NAME.validate_python(name)


def test_metadata_ends_at_16_kib_of_canonical_json() -> None:
    around = len('{"a":""}')
    text = "x" * (16 * 1024 - around)
    assert METADATA.validate_python({"a": text}) == {"a": text}
    with pytest.raises(ValidationError, match="at most 16384 bytes"):
        METADATA.validate_python({"a": text + "x"})


def test_what_is_blank_is_not_written() -> None:
    assert require_written(" a ") == " a "
    with pytest.raises(ValueError, match="must not be blank"):
        require_written(" \t\n")
