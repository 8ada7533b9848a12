"""The log as server-sent events, on the path of its pages (service.md 6).

It is the socket's stream in another dress: the same subscription, the same bounds, the same end.
A client that comes back says what it had in Last-Event-ID; one that has a run's end gets 204.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Final, assert_never

from starlette.responses import Response
from typing_extensions import override

from app.api.frames import SEND_S
from app.errors import StoreUnavailable
from app.log.envelope import Event, shown
from app.service.refusals import FieldFault, NotFound, RequestInvalid
from app.service.streams.subscriptions import CaughtUp, Demoted, Ended
from app.service.streams.use_cases import AfterBeyondHead, Opening, StreamsDraining

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

    from app.api.edge import Call
    from app.service.streams.event_log import Subject
    from app.service.streams.use_cases import Stream

MEDIA_TYPE: Final = "text/event-stream"
COMMENT_S: Final = 15.0
_RETRY: Final = b"retry: 2000\n\n"
_COMMENT: Final = b":\n\n"
_HEADERS: Final = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
]


class EventStream(Response):
    """An answer that goes on until the run, the token, the client or the process ends."""

    def __init__(self, call: Call, subject: Subject, *, after: int) -> None:
        super().__init__()
        self._call = call
        self._subject = subject
        self._opening = Opening(after)
        self._alarm = asyncio.timeout(None)
        self._has_started = False

    @override
    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Stream. Refusals are raised while the answer has not begun."""
        try:
            async with self._alarm:
                self._set_alarm()
                await self._open(scope, receive, send)
        except AfterBeyondHead as beyond:
            fault = FieldFault("/query/after", beyond.message)
            raise RequestInvalid(beyond.message, faults=(fault,)) from beyond
        except TimeoutError:
            if not self._has_started:
                raise StreamsDraining("the stream cannot be opened just now") from None
        except (StoreUnavailable, NotFound):
            # Begun already, it can only end; the client comes back with its last id.
            if not self._has_started:
                raise
        if self._has_started:
            with contextlib.suppress(OSError):
                await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _open(self, scope: Scope, receive: Receive, send: Send) -> None:
        streams, caller = self._call.edge.streams, self._call.caller
        revoked = self._call.edge.access.revoked
        with streams.place(self._end_now) as place, revoked.watched(self._look_again):
            streams.seat(place, caller)
            async with streams.open(caller, self._subject, self._opening) as stream:
                if stream.is_over:
                    await Response(status_code=204)(scope, receive, send)
                    return
                await send({"type": "http.response.start", "status": 200, "headers": [*_HEADERS]})
                self._has_started = True
                await self._stream(stream, receive, send)

    async def _stream(self, stream: Stream, receive: Receive, send: Send) -> None:
        try:
            async with asyncio.TaskGroup() as tasks:
                watching = tasks.create_task(self._watch(receive))
                await self._deliver(stream, send)
                watching.cancel()
        except ExceptionGroup as group:
            raise group.exceptions[0] from None

    async def _watch(self, receive: Receive) -> None:
        """Notice that the client has left, which no write would show while there is none."""
        while (await receive())["type"] != "http.disconnect":
            pass
        self._end_now()

    async def _deliver(self, stream: Stream, send: Send) -> None:
        chunk = _RETRY
        while await _written(send, chunk):
            try:
                async with asyncio.timeout(COMMENT_S):
                    item = await stream.next()
            except TimeoutError:
                chunk = _COMMENT
                continue
            match item:
                case Event() as event:
                    chunk = _event_text(event)
                case CaughtUp() | Demoted():
                    chunk = _COMMENT
                case Ended():
                    return
                case _:
                    assert_never(item)

    def _set_alarm(self) -> None:
        left = self._call.who.ends_at - self._call.edge.clock.now()
        self._alarm.reschedule(asyncio.get_running_loop().time() + left.total_seconds())

    def _look_again(self) -> None:
        """Something was revoked; a token that does not hold any more ends the stream."""
        if self._call.edge.access.revoked.covers(self._call.who):
            self._end_now()

    def _end_now(self) -> None:
        if not self._alarm.expired():
            self._alarm.reschedule(asyncio.get_running_loop().time())


def _event_text(event: Event) -> bytes:
    """One event; JSON has no line breaks of its own."""
    return b"id: %d\nevent: %s\ndata: %s\n\n" % (event.seq, event.type.encode(), shown(event))


async def _written(send: Send, chunk: bytes) -> bool:
    """Whether the client took the chunk within a minute; a cancelled write wrote nothing."""
    try:
        async with asyncio.timeout(SEND_S):
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
    except OSError:  # A TimeoutError is one as well.
        return False
    return True
