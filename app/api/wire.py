"""What bodies and documents have in common: strict reading, and the forms of times and names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, SerializerFunctionWrapHandler, model_serializer

from app.log.envelope import wire_time

if TYPE_CHECKING:
    from datetime import datetime

Time = Annotated[str, Field(json_schema_extra={"format": "date-time"})]


class Body(BaseModel):
    """A request: no member of another type is bent to fit, none unknown is passed over."""

    model_config = ConfigDict(strict=True, frozen=True, extra="forbid")


class Document(BaseModel):
    """An answer."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class SparseDocument(Document):
    """An answer some of whose members are left out, rather than null, when they were not set."""

    @model_serializer(mode="wrap")
    def _only_set(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        members: dict[str, Any] = write(self)
        return {name: value for name, value in members.items() if name in self.model_fields_set}


def time_or_none(at: datetime | None) -> str | None:
    """Wire time, or null for what has not happened."""
    return None if at is None else wire_time(at)
