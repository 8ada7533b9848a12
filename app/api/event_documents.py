"""Events as readers see them: one document per type, and their flat union tagged by `type`.

These models describe what the log writes; pages and frames send its bytes as they are, so nothing
here runs on the way out. The documents are made from the catalogue: a new payload needs no line.
"""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, RootModel, create_model

from app.log.catalogue import PAYLOADS

if TYPE_CHECKING:
    from app.log.payload import Payload


class EventDocument(BaseModel):
    """The members that every event has; `data` depends on its type."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    conversation_id: str
    seq: Annotated[int, Field(ge=1)]
    run_id: str | None
    turn_id: str | None
    step: int | None
    type: str
    at: Annotated[str, Field(json_schema_extra={"format": "date-time"})]
    trust: Literal["unspecified", "trusted_user", "quarantined_content"]
    data: Any
    cut: Annotated[
        tuple[str, ...], Field(description="JSON pointers into `data` of the texts cut short")
    ] = ()


def _document(payload: type[Payload]) -> type[EventDocument]:
    fields: dict[str, Any] = {"type": (Literal[payload.TYPE], ...), "data": (payload, ...)}
    return create_model(
        f"{payload.__name__}Event", __base__=EventDocument, __doc__=payload.__doc__, **fields
    )


EVENT_DOCUMENTS: Final = {tag: _document(payload) for tag, payload in sorted(PAYLOADS.items())}

if TYPE_CHECKING:
    AnyEvent = EventDocument
else:
    AnyEvent = Annotated[reduce(or_, EVENT_DOCUMENTS.values()), Field(discriminator="type")]


class Event(RootModel[AnyEvent]):
    """One fact of the log; `type` says what `data` holds."""
