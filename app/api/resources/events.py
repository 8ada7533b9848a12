"""Events: pages, the long poll, one event uncut, and the same paths as server-sent events.

An item is the text of the log. A page is put together from these texts; nothing is parsed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final

from fastapi import Depends, Header, Query, Response
from pydantic import Field

from app.api.edge import Call, Calling
from app.api.event_documents import Event
from app.api.frames import Seq
from app.api.paging import Digits
from app.api.routes import EdgeRoute, Routes, names
from app.api.stream.sse import MEDIA_TYPE, EventStream
from app.api.wire import Document
from app.log.envelope import shown
from app.service.refusals import FieldFault, RequestInvalid
from app.service.streams.event_log import AuditLog, ConversationLog, RunLog, Subject

MAX_LIMIT: Final = 1000
MAX_WAIT_S: Final = 30
MAX_SEQ: Final = 2**53 - 1
JSON: Final = "application/json"

routes = Routes(tags=["events"])


class EventPage(Document):
    """Events in ascending order; `next_after` is the `after` of the next page."""

    items: list[Event]
    next_after: Seq
    head_seq: Seq


class EventsRoute(EdgeRoute):
    """A list of events, as a page or as a stream."""

    media_types: Sequence[str] = (JSON, MEDIA_TYPE)


@dataclass(frozen=True, slots=True)
class _PageAsked:
    """Which page."""

    after: Annotated[
        int, Field(ge=0, le=MAX_SEQ), Digits, Query(description="The seq that the client has")
    ] = 0
    limit: Annotated[
        int, Field(ge=1, le=MAX_LIMIT), Digits, Query(description="Items of a page")
    ] = 200
    wait: Annotated[
        int, Field(ge=0, le=MAX_WAIT_S), Digits, Query(description="Seconds to wait for an item")
    ] = 0


PageAsked = Annotated[_PageAsked, Depends()]


@dataclass(frozen=True, slots=True)
class _Asked:
    """Which page, or from where on a stream."""

    page: PageAsked
    accept: Annotated[str, Header(include_in_schema=False)] = JSON
    last_event_id: Annotated[
        str | None,
        Header(description="The seq that a stream's client has; it wins over `after`"),
    ] = None


Asked = Annotated[_Asked, Depends()]
_STREAM: Final[dict[int | str, dict[str, Any]]] = {
    200: {"content": {MEDIA_TYPE: {"schema": {"type": "string"}}}},
    204: {"description": "The client has everything up to the run's end"},
}


@routes.open(
    "GET",
    "/v1/runs/{run_id}/events",
    "list_run_events",
    scope="runs:read",
    kind=EventsRoute,
    response_model=EventPage,
    responses=_STREAM,
)
async def list_run_events(call: Calling, run_id: str, asked: Asked) -> Response:
    """The events of one run."""
    return await _answer(call, RunLog(run_id), asked)


@routes.open(
    "GET",
    "/v1/conversations/{conversation_id}/events",
    "list_conversation_events",
    scope="runs:read",
    kind=EventsRoute,
    response_model=EventPage,
    responses={200: _STREAM[200]},
)
async def list_conversation_events(call: Calling, conversation_id: str, asked: Asked) -> Response:
    """The events of a conversation, of all its runs."""
    return await _answer(call, ConversationLog(conversation_id), asked)


@routes.open(
    "GET",
    "/v1/conversations/{conversation_id}/events/{seq}",
    "get_event",
    scope="runs:read",
    response_model=Event,
)
async def get_event(
    call: Calling, conversation_id: str, seq: Annotated[int, Field(ge=1, le=MAX_SEQ), Digits]
) -> Response:
    """One event, never cut."""
    event = await call.edge.event_log.event(call.caller, conversation_id, seq)
    return Response(event.body, media_type=JSON)


@routes.open(
    "GET", "/v1/audit/events", "list_audit_events", scope="admin", response_model=EventPage
)
async def list_audit_events(call: Calling, asked: PageAsked) -> Response:
    """The events of the tenant's own log."""
    return await _page(call, AuditLog(), asked)


async def _answer(call: Call, subject: Subject, asked: _Asked) -> Response:
    if names(asked.accept, MEDIA_TYPE):
        after = _start(asked.page.after, asked.last_event_id)
        return EventStream(call, subject, after=after)
    return await _page(call, subject, asked.page)


async def _page(call: Call, subject: Subject, asked: _PageAsked) -> Response:
    page = await call.edge.event_log.page(
        call.caller, subject, after=asked.after, limit=asked.limit, wait_s=float(asked.wait)
    )
    items = b",".join(shown(event) for event in page.items)
    text = b'{"items":[%s],"next_after":%d,"head_seq":%d}' % (items, page.next_after, page.head_seq)
    return Response(text, media_type=JSON)


def _start(after: int, last_event_id: str | None) -> int:
    """The seq to start after. Raises RequestInvalid for an id that we never gave."""
    if last_event_id is None:
        return after
    is_seq = last_event_id.isascii() and last_event_id.isdecimal() and len(last_event_id) <= 16
    if not is_seq or int(last_event_id) > MAX_SEQ:
        detail = "expected the id of an event"
        raise RequestInvalid(detail, faults=(FieldFault("/header/Last-Event-ID", detail),))
    return int(last_event_id)
