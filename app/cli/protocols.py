"""How uvicorn reads a connection before there is a request, and what it says when there is none.

What no application gets to see is bounded and refused here: as a problem document with status 400,
for there is neither a body nor a parameter that 422 could speak of (service.md 1).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast

import orjson
from typing_extensions import override
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from app.api.problems import MEDIA_TYPE, problem_of
from app.service.refusals import RequestInvalid

if TYPE_CHECKING:
    from collections.abc import Sequence

    from uvicorn import Config
    from uvicorn.protocols.http.httptools_impl import RequestResponseCycle
    from websockets.frames import Frame

# For a head, or for what is around the pieces of a body; what one read brings more is let pass.
HEAD_BYTES: Final = 64 * 1024
# A message is bounded by its bytes, which empty fragments have none of.
FRAGMENTS: Final = 1024
TOO_BIG: Final = 1009


class BoundedHttp(HttpToolsProtocol):
    """HTTP with bounds of its own; httptools has none for heads, trailers and chunk extensions."""

    _unread = 0

    @override
    def data_received(self, data: bytes) -> None:
        self._unread += len(data)
        super().data_received(data)
        if self._unread > HEAD_BYTES and not self.transport.is_closing():
            self.send_400_response(f"expected a head of at most {HEAD_BYTES} bytes")

    @override
    def on_headers_complete(self) -> None:
        self._unread = 0
        super().on_headers_complete()

    @override
    def on_body(self, body: bytes) -> None:
        self._unread = 0
        super().on_body(body)

    @override
    def on_message_complete(self) -> None:
        self._unread = 0
        super().on_message_complete()

    @override
    def send_400_response(self, msg: str) -> None:
        """Refuse and close; an answer that has begun is cut off, not followed by another."""
        # There is none before the first request, whatever the annotation says.
        cycle = cast("RequestResponseCycle | None", self.cycle)
        if cycle is None or not cycle.response_started or cycle.response_complete:
            self.transport.write(_refusal(self.config, msg))
        self.transport.close()


class BoundedSocket(WebSocketsSansIOProtocol):
    """A WebSocket whose handshake is always answered, and whose client can fill no memory."""

    _owed: Sequence[bytes] = ()

    @override
    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        # The first data is a whole head. If the library made no request of it, it has given up
        # without a word, and the connection would stay open for as long as the client likes.
        if not self.handshake_initiated:
            self.transport.write(_refusal(self.config, "expected a WebSocket handshake"))
            self.transport.close()

    @override
    def handle_cont(self, event: Frame) -> None:
        if len(self.frames) < FRAGMENTS:
            super().handle_cont(event)
        elif not self.close_sent:
            self.conn.send_close(TOO_BIG)
            self.handle_parser_exception()

    @override
    def handle_ping(self) -> None:
        """Answer, or owe the latest ping its pong while the client takes none (RFC 6455 5.5.3)."""
        if self.writable.is_set():
            super().handle_ping()
        else:
            # The first ping of a read comes with the pongs of all of them, the others with none.
            self._owed = self.conn.data_to_send()[-1:] or self._owed

    @override
    def resume_writing(self) -> None:
        owed, self._owed = self._owed, ()
        self.transport.write(b"".join(owed))
        super().resume_writing()


def _refusal(config: Config, detail: str) -> bytes:
    """The whole answer to what is no request."""
    app: Any = config.app
    request_id: str = app.state.edge.clock.mint("req")
    problem = problem_of(RequestInvalid(detail), request_id)
    body = orjson.dumps(problem | {"title": "This is no request", "status": 400})
    head = (
        "HTTP/1.1 400 Bad Request",
        f"content-type: {MEDIA_TYPE}",
        f"content-length: {len(body)}",
        f"x-request-id: {request_id}",
        "connection: close",
    )
    return "\r\n".join((*head, "", "")).encode() + body
