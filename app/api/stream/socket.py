"""The WebSocket of a run or conversation, and the only file that touches one (service.md 7).

What may be said when is `SocketSession`'s; here it meets ASGI. Two tasks share a socket: one reads
and does what each frame asks for, the other pulls the stream and writes. Every frame leaves through
`_text`, which gives up on a client that takes nothing for a minute. One alarm ends the socket when
its client is late, its token over, or the process on its way down; it interrupts even a write.

What a client asks for counts among its principal's requests, whatever the socket: a token, a ping,
an acknowledgement that says nothing new. One that does costs nothing, for the service called for it
with an event, and `hold` lives on them.
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NoReturn, assert_never

import structlog
from starlette.routing import WebSocketRoute

from app.api.codes import answer_of
from app.api.frames import SEND_S, CloseCode
from app.api.stream.handshake import authorization, is_foreign, refused_query, subprotocol
from app.api.stream.session import (
    Acknowledge,
    Authenticate,
    Close,
    FrameRate,
    SendPong,
    SocketSession,
    Subscribe,
)
from app.api.stream.socket_frames import (
    LIVE,
    PONG,
    demoted_frame,
    end_frame,
    error_frame,
    event_frame,
    hello_frame,
)
from app.errors import TurngateError
from app.log.envelope import Event
from app.service.refusals import Refusal
from app.service.streams.event_log import ConversationLog, RunLog
from app.service.streams.subscriptions import CaughtUp, Demoted, Ended

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, MutableMapping

    from app.api.edge import Edge
    from app.api.stream.session import Action
    from app.service.caller import Caller
    from app.service.streams.event_log import Subject
    from app.service.streams.use_cases import Opening, Place, Stream

    Message = MutableMapping[str, Any]
    Receive = Callable[[], Awaitable[Message]]
    Send = Callable[[Message], Awaitable[None]]

# A client that reads nothing cannot be told so; it gets this long to take the close frame.
CLOSE_S: Final = 3.0

log = structlog.get_logger("turngate.socket")


class _Closing(Exception):
    """The session is over, and this is what the client is told."""

    def __init__(self, close: Close) -> None:
        super().__init__(close)
        self.close = close


class _Gone(Exception):
    """The client has left."""


@dataclass(frozen=True, slots=True)
class StreamSocket:
    """The ASGI application of a stream route; `subject` makes a part of the log from its id."""

    subject: Callable[[str], Subject]

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Serve one socket to its end."""
        edge: Edge = scope["app"].state.edge
        await receive()
        if is_foreign(scope, edge.allowed_origins):
            await send({"type": "websocket.close"})
            return
        (ident,) = scope["path_params"].values()
        socket = _Socket(edge, self.subject(ident), receive, send)
        await socket.serve(scope)


STREAM_ROUTES: Final = (
    WebSocketRoute("/v1/runs/{run_id}/stream", StreamSocket(RunLog)),
    WebSocketRoute("/v1/conversations/{conversation_id}/stream", StreamSocket(ConversationLog)),
)


class _Socket:
    """One socket, from its upgrade to its close."""

    def __init__(self, edge: Edge, subject: Subject, receive: Receive, send: Send) -> None:
        self._edge = edge
        self._subject = subject
        self._receive = receive
        self._send = send
        self._clock = edge.clock
        self._session = SocketSession(self._clock.now())
        self._rate = FrameRate(self._clock.monotonic())
        self._alarm = asyncio.timeout(None)
        self._is_draining = False

    async def serve(self, scope: Message) -> None:
        """Accept, converse, close."""
        with contextlib.suppress(_Gone):
            await self._write({"type": "websocket.accept", "subprotocol": subprotocol(scope)})
            await self._close(await self._until_close(scope))

    async def _until_close(self, scope: Message) -> Close:
        """The whole conversation, and how it ends. Raises _Gone."""
        try:
            async with self._alarm:
                self._set_alarm()
                with (
                    self._edge.streams.place(self._drain) as place,
                    self._edge.access.revoked.watched(self._look_again),
                ):
                    await self._converse(scope, place)
        except _Closing as closing:
            return closing.close
        except TurngateError as error:
            answer = answer_of(error.code)
            # Only a refusal speaks to clients; other messages are for us.
            detail = error.message if isinstance(error, Refusal) else answer.title
            return Close(answer.close, error.code, detail)
        except TimeoutError:
            if self._is_draining:
                return Close(CloseCode.DRAIN)
            return self._session.overdue(self._clock.now())
        except _Gone:
            raise
        except Exception:  # The root of a socket: its fault ends no other.
            log.exception("socket.fault")
            return Close(CloseCode.INTERNAL)

    async def _converse(self, scope: Message, place: Place) -> NoReturn:
        if (refused := refused_query(scope)) is not None:
            raise _Closing(refused)
        if (header := authorization(scope)) is not None:
            await self._authenticate(header.token or "")
        caller, opening = await self._subscribed()
        self._edge.streams.seat(place, caller)
        async with self._edge.streams.open(caller, self._subject, opening) as stream:
            await self._text(hello_frame(stream.scope, after=opening.after, head=stream.head))
            await self._stream(stream, opening.after)

    async def _subscribed(self) -> tuple[Caller, Opening]:
        """Read until the client is known and has subscribed."""
        while True:
            action = await self._next_action()
            if isinstance(action, Subscribe):
                self._set_alarm()
                return self._session.caller, action.opening
            await self._do(action, None)

    async def _stream(self, stream: Stream, after: int) -> NoReturn:
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._listen(stream))
                await self._deliver(stream, after)
        except ExceptionGroup as both:
            # Whichever task was first to end has ended the other.
            raise both.exceptions[0] from None

    async def _listen(self, stream: Stream) -> NoReturn:
        while True:
            await self._do(await self._next_action(), stream)

    async def _deliver(self, stream: Stream, after: int) -> NoReturn:
        had = after
        while True:
            match await stream.next():
                case Event() as event:
                    self._session.sent(event.seq)
                    await self._text(event_frame(event, prev=had))
                    had = event.seq
                case CaughtUp():
                    await self._text(LIVE)
                case Demoted(reason):
                    await self._text(demoted_frame(reason))
                case Ended(status):
                    await self._text(end_frame(status))
                    raise _Closing(Close(CloseCode.END))
                case unknown:
                    assert_never(unknown)

    async def _next_action(self) -> Action:
        message = await self._receive()
        if message["type"] == "websocket.disconnect":
            raise _Gone
        text = message.get("text")
        action = self._session.receive(message["bytes"] if text is None else text)
        pause = self._rate.wait_after_frame(self._clock.monotonic())
        if pause:
            # While nothing is received, the server reads nothing, and the client has to wait.
            await self._clock.sleep(pause)
        return action

    async def _do(self, action: Action, stream: Stream | None) -> None:
        match action:
            case Authenticate(token):
                await self._authenticate(token)
            case SendPong():
                self._count(self._session.caller)
                await self._text(PONG)
            case Acknowledge(seq, is_news):
                if not is_news:
                    self._count(self._session.caller)
                if stream is not None:
                    stream.acknowledge(seq)
            case Close():
                raise _Closing(action)
            case Subscribe():
                raise AssertionError("the session lets a socket subscribe once")
            case _:
                assert_never(action)

    async def _authenticate(self, token: str) -> None:
        who = await self._edge.access.authenticate(token)
        self._count(who.caller)
        refused = self._session.authenticated(who, self._clock.now())
        if refused is not None:
            raise _Closing(refused)
        self._set_alarm()

    def _count(self, caller: Caller) -> None:
        """Count one request of the caller's. Raises RateLimited."""
        if self._edge.rates is not None:
            self._edge.rates.count(caller)

    async def _text(self, text: str) -> None:
        """Write one frame. Cancelling is safe: a frame is written whole or not at all."""
        try:
            async with asyncio.timeout(SEND_S):
                await self._write({"type": "websocket.send", "text": text})
        except TimeoutError:
            raise _Closing(Close(CloseCode.SLOW)) from None

    async def _close(self, close: Close) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_S):
                if close.error is not None:
                    frame = error_frame(close.error, close.detail)
                    await self._write({"type": "websocket.send", "text": frame})
                await self._write({"type": "websocket.close", "code": int(close.code)})

    async def _write(self, message: Message) -> None:
        """The one way out. Raises _Gone."""
        try:
            await self._send(message)
        except OSError as gone:
            raise _Gone from gone

    def _set_alarm(self) -> None:
        if not self._alarm.expired():
            left = self._session.seconds_left(self._clock.now())
            self._alarm.reschedule(asyncio.get_running_loop().time() + left)

    def _look_again(self) -> None:
        """Something was revoked; a token that does not hold any more ends the socket."""
        if self._session.revoke(self._edge.access.revoked.covers, self._clock.now()):
            self._set_alarm()

    def _drain(self) -> None:
        self._is_draining = True
        if not self._alarm.expired():
            self._alarm.reschedule(asyncio.get_running_loop().time())
