"""Frames as text: what the service says on a socket, and the strict reading of what it hears.

An event frame is written around the bytes of the log. It is neither parsed nor validated on its
way out: what is shown is what was hashed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import orjson
from pydantic import ValidationError

from app.api.frames import CLIENT_FRAME, CLIENT_FRAME_TYPES, PROTOCOL
from app.engine.json.arguments import JsonDefect, strict_loads
from app.log.envelope import shown

if TYPE_CHECKING:
    from app.api.frames import AckFrame, AuthFrame, PingFrame, SubscribeFrame
    from app.log.envelope import Event
    from app.log.queries import LogScope

LIVE: Final = '{"type":"live"}'
PONG: Final = '{"type":"pong"}'


class BadFrame(Exception):
    """A frame that no client of this protocol sends; `code` is frame.malformed or frame.unknown."""

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(detail)
        self.code = code
        self.detail = detail


def read_frame(message: str | bytes) -> AuthFrame | SubscribeFrame | AckFrame | PingFrame:
    """A client's frame. Raises BadFrame."""
    if isinstance(message, bytes):
        raise BadFrame("frame.malformed", "expected a text frame, found a binary one")
    try:
        # Big numbers are kept as they are: 1.0 must not pass for the integer 1.
        value = strict_loads(message, big_numbers=True)
    except JsonDefect as defect:
        raise BadFrame("frame.malformed", f"the frame is refused {defect.defect}") from defect
    if not isinstance(value, dict) or not isinstance(value.get("type"), str):
        raise BadFrame("frame.malformed", "expected an object with a type")
    if value["type"] not in CLIENT_FRAME_TYPES:
        raise BadFrame("frame.unknown", f"expected one of {', '.join(sorted(CLIENT_FRAME_TYPES))}")
    try:
        return CLIENT_FRAME.validate_python(value)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = "/".join(str(part) for part in first["loc"][1:])
        raise BadFrame("frame.malformed", f"at /{where}: {first['msg']}") from error


def hello_frame(scope: LogScope, *, after: int, head: int) -> str:
    """The subscription stands."""
    return _text(
        {
            "type": "hello",
            "protocol": PROTOCOL,
            "conversation_id": scope.conversation_id,
            "run_id": scope.run_id,
            "after": after,
            "head": head,
        }
    )


def event_frame(event: Event, *, prev: int) -> str:
    """One event; `prev` is the seq that this socket delivered before it."""
    body = shown(event).decode()
    return f'{{"type":"event","seq":{event.seq},"prev":{prev},"event":{body}}}'


def end_frame(status: str) -> str:
    """The run is over."""
    return _text({"type": "end", "status": status})


def demoted_frame(reason: str) -> str:
    """The subscriber holds nothing any more."""
    return _text({"type": "demoted", "reason": reason})


def error_frame(code: str, detail: str) -> str:
    """What went wrong; the close follows."""
    return _text({"type": "error", "code": code, "detail": detail})


def _text(frame: dict[str, str | int | None]) -> str:
    return orjson.dumps(frame).decode()
