"""The frames of the WebSocket, in both directions (service.md 7).

Client frames are read strictly: an unknown member, a float for an integer or a missing `type` is a
malformed frame. Server frames are described here; the `event` frame is written around the bytes of
the log and never through its model.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Annotated, Final, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, RootModel, TypeAdapter

from app.api.event_documents import Event

PROTOCOL: Final = "turngate.v1"
DEFAULT_WINDOW: Final = 256
MAX_WINDOW: Final = 4096
# Seconds in which a client has to take one frame, or one server-sent event.
SEND_S: Final = 60.0

Mode = Literal["replay", "hold"]
Seq = Annotated[int, Field(ge=0, le=2**53 - 1)]


class CloseCode(IntEnum):
    """Why the service closes a socket."""

    END = 1000
    DRAIN = 1001
    INTERNAL = 1011
    SLOW = 1013
    PROTOCOL = 4400
    AUTH = 4401
    FORBIDDEN = 4403
    MISSING = 4404
    SUBSCRIBE_TIMEOUT = 4408
    TOO_MANY = 4429


class Frame(BaseModel):
    """A frame: a JSON object with a `type` and nothing unknown."""

    model_config = ConfigDict(strict=True, frozen=True, extra="forbid")


class AuthFrame(Frame):
    """An access token: the first frame of a socket without the header, or a refresh."""

    type: Literal["auth"]
    token: str


class SubscribeFrame(Frame):
    """Ask for the events after a seq; once per socket."""

    type: Literal["subscribe"]
    after: Seq = 0
    mode: Mode = "replay"
    window: Annotated[int, Field(ge=1, le=MAX_WINDOW)] = DEFAULT_WINDOW


class AckFrame(Frame):
    """Everything up to a seq was taken in."""

    type: Literal["ack"]
    seq: Seq


class PingFrame(Frame):
    """Ask for a `pong`."""

    type: Literal["ping"]


class HelloFrame(Frame):
    """The subscription stands; `head` is the conversation's."""

    type: Literal["hello"]
    protocol: Literal["turngate.v1"] = PROTOCOL
    conversation_id: str
    run_id: str | None
    after: Seq
    head: Seq


class EventFrame(Frame):
    """One event; a client sees a gap when `prev` differs from the seq it had before."""

    type: Literal["event"]
    seq: Seq
    prev: Seq
    event: Event


class LiveFrame(Frame):
    """The client has caught up; sent once."""

    type: Literal["live"]


class EndFrame(Frame):
    """The run is over; the socket closes with 1000."""

    type: Literal["end"]
    status: Literal["completed", "failed", "cancelled"]


class ErrorFrame(Frame):
    """What went wrong; a close code follows."""

    type: Literal["error"]
    code: str
    detail: str


class DemotedFrame(Frame):
    """The subscriber no longer holds the run and goes on in replay mode."""

    type: Literal["demoted"]
    reason: Literal["timeout", "forbidden", "cooldown"]


class PongFrame(Frame):
    """The answer to a `ping`."""

    type: Literal["pong"]


AnyClientFrame: TypeAlias = Annotated[
    AuthFrame | SubscribeFrame | AckFrame | PingFrame, Field(discriminator="type")
]
AnyServerFrame: TypeAlias = Annotated[
    HelloFrame | EventFrame | LiveFrame | EndFrame | ErrorFrame | DemotedFrame | PongFrame,
    Field(discriminator="type"),
]


class ClientFrame(RootModel[AnyClientFrame]):
    """A frame from the client; `type` says which."""


class ServerFrame(RootModel[AnyServerFrame]):
    """A frame from the service; `type` says which."""


CLIENT_FRAME: Final[TypeAdapter[AnyClientFrame]] = TypeAdapter(AnyClientFrame)
CLIENT_FRAME_TYPES: Final = frozenset({"auth", "subscribe", "ack", "ping"})
