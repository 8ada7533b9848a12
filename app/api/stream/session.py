"""The session of one socket, without a socket: frames go in, actions come out (service.md 7).

How to drive it:

1. Call `receive` with every message, in order, and do the one action that it answers.
2. `Authenticate`: verify the token, then tell `authenticated` who it is. A token from the header
   is told in the same way before the first message.
3. `Subscribe`: open the stream; before a frame of it is written, tell `sent` its seq.
4. Whenever `seconds_left` have passed without an action that changes it, do what `overdue` says.
5. After a `Close` nothing is received and nothing but its error frame is sent.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final, TypeAlias, assert_never

from app.api.frames import AckFrame, AuthFrame, CloseCode, PingFrame, SubscribeFrame
from app.api.stream.socket_frames import BadFrame, read_frame
from app.service.streams.use_cases import Opening

if TYPE_CHECKING:
    from collections.abc import Callable

    from app.service.access.tokens import Authenticated
    from app.service.caller import Caller

PATIENCE: Final = timedelta(seconds=10)
FRAMES_PER_S: Final = 50


@dataclass(frozen=True, slots=True)
class Authenticate:
    """Verify the token and tell `authenticated`."""

    token: str


@dataclass(frozen=True, slots=True)
class Subscribe:
    """Open the stream."""

    opening: Opening


@dataclass(frozen=True, slots=True)
class Acknowledge:
    """The client has taken in everything up to `seq`; `is_news` if it had not said so before."""

    seq: int
    is_news: bool = True


@dataclass(frozen=True, slots=True)
class SendPong:
    """Answer a ping."""


@dataclass(frozen=True, slots=True)
class Close:
    """Say what is wrong, if anything is, and close."""

    code: CloseCode
    error: str | None = None
    detail: str = ""


Action: TypeAlias = Authenticate | Subscribe | Acknowledge | SendPong | Close


class SocketSession:
    """What a client may say next, and until when."""

    def __init__(self, now: datetime) -> None:
        self._who: Authenticated | None = None
        self._due: datetime | None = now + PATIENCE
        self._sent: int | None = None
        self._acknowledged = 0

    @property
    def caller(self) -> Caller:
        """Whose socket it is, once it is known."""
        if self._who is None:
            raise ValueError("nobody has authenticated yet")
        return self._who.caller

    def receive(self, message: str | bytes) -> Action:
        """What one message asks for."""
        try:
            frame = read_frame(message)
        except BadFrame as bad:
            return Close(CloseCode.PROTOCOL, bad.code, bad.detail)
        match frame:
            case AuthFrame():
                return Authenticate(frame.token)
            case _ if self._who is None:
                return Close(CloseCode.AUTH, "auth.token", "expected an auth frame first")
            case PingFrame():
                return SendPong()
            case SubscribeFrame():
                return self._subscribe(frame)
            case AckFrame():
                return self._acknowledge(frame.seq)
            case _:
                assert_never(frame)

    def authenticated(self, who: Authenticated, now: datetime) -> Close | None:
        """The token holds. As a refresh it must speak for the same person, who may still read.

        Raises ScopeMissing where they may not; what a first token opens is seen by the stream.
        """
        before, self._who = self._who, who
        if before is None:
            self._due = now + PATIENCE
            return None
        if (before.caller.tenant, before.caller.principal) != (
            who.caller.tenant,
            who.caller.principal,
        ):
            return Close(CloseCode.FORBIDDEN, "auth.token", "the token is another person's")
        who.caller.require("runs:read")
        return None

    def revoke(self, is_revoked: Callable[[Authenticated], bool], now: datetime) -> bool:
        """Whether the token is revoked; it is over then."""
        if self._who is None or not is_revoked(self._who):
            return False
        self._who = self._who.ended(now)
        return True

    def sent(self, seq: int) -> None:
        """An event is on its way to the client, which may acknowledge it from now on."""
        self._sent = seq

    def seconds_left(self, now: datetime) -> float:
        """Until the client is late, or its token over."""
        ends = [] if self._due is None else [self._due]
        if self._who is not None:
            ends.append(self._who.ends_at)
        return max(0.0, (min(ends) - now).total_seconds())

    def overdue(self, now: datetime) -> Close:
        """What to do when that time has passed."""
        if self._who is None:
            return Close(CloseCode.AUTH, "auth.token", "expected an auth frame within 10 s")
        if self._due is not None and now < self._who.ends_at:
            detail = "expected a subscribe frame within 10 s"
            return Close(CloseCode.SUBSCRIBE_TIMEOUT, "request.invalid", detail)
        return Close(CloseCode.AUTH, "auth.token", "the access token is over")

    def _subscribe(self, frame: SubscribeFrame) -> Action:
        if self._sent is not None:
            detail = "a socket subscribes once"
            return Close(CloseCode.PROTOCOL, "frame.malformed", detail)
        self._sent, self._due = frame.after, None
        self._acknowledged = frame.after
        return Subscribe(Opening(frame.after, frame.window if frame.mode == "hold" else None))

    def _acknowledge(self, seq: int) -> Action:
        if self._sent is None or seq > self._sent:
            detail = f"seq {seq} was not sent on this socket"
            return Close(CloseCode.PROTOCOL, "stream.ack", detail)
        is_news = seq > self._acknowledged
        self._acknowledged = max(self._acknowledged, seq)
        return Acknowledge(seq, is_news)


class FrameRate:
    """How fast a client may send: a burst of 50 frames, then 50 a second; pure arithmetic."""

    def __init__(self, monotonic: float) -> None:
        self._tokens = float(FRAMES_PER_S)
        self._at = monotonic

    def wait_after_frame(self, monotonic: float) -> float:
        """Count a frame; seconds to let pass before the next one is read."""
        earned = (monotonic - self._at) * FRAMES_PER_S
        self._tokens = min(float(FRAMES_PER_S), self._tokens + earned) - 1
        self._at = monotonic
        return max(0.0, -self._tokens / FRAMES_PER_S)
