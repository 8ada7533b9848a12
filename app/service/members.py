"""What the documents that people send have in common: the types of their members.

Only what documents of several nouns share is here. A bound belongs to the noun that has it.
"""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import AfterValidator, Field, JsonValue

from app.engine.json.arguments import canonical_bytes

METADATA_BYTES: Final = 16 * 1024


def require_printable(text: str) -> str:
    """The text. Raises ValueError where not all of it can be seen."""
    if not text.isprintable():
        raise ValueError("must be printable")
    return text


def require_written(text: str) -> str:
    """The text. Raises ValueError where nothing is written."""
    if not text.strip():
        raise ValueError("must not be blank")
    return text


def _small(metadata: dict[str, JsonValue]) -> dict[str, JsonValue]:
    if metadata and len(canonical_bytes(metadata)) > METADATA_BYTES:
        raise ValueError(f"must be at most {METADATA_BYTES} bytes")
    return metadata


Name = Annotated[str, Field(min_length=1, max_length=255), AfterValidator(require_printable)]
Metadata = Annotated[dict[str, JsonValue], AfterValidator(_small)]
