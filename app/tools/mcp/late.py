"""Hearing what a server answers to a call that nobody waits for any more (F33).

The library tells a server that a call is cancelled, forgets the call, and drops whatever comes for
it all the same. So the messages of a connection pass through here, unchanged: a result for a call
that was given up is told of once, and what the library makes of it stays as it is. Nobody waits
for one, nothing is kept open for it, and it ends with its connection.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final, Generic, Self, TypeVar

from mcp_types import JSONRPCError, JSONRPCNotification, JSONRPCRequest, JSONRPCResponse

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping
    from contextvars import Context
    from types import TracebackType

    from mcp.client import Transport
    from mcp.client._transport import ReadStream, TransportStreams, WriteStream
    from mcp.shared.message import SessionMessage
    from mcp_types import JSONRPCMessage

    from app.turn.ports import Clock

    Told = Callable[[str, Mapping[str, Any]], None]

# In a call's metadata: a server may know a repeated call by it, and a late result is told of by it.
IDEMPOTENCY_KEY: Final = "turngate/idempotency-key"
# For so long a result is listened for, and of so many calls of a connection; the oldest give way.
LATE_S: Final = 300.0
MAX_GIVEN_UP: Final = 64
_Stream = TypeVar("_Stream", bound="ReadStream[Any] | WriteStream[Any]")


class GivenUpCalls:
    """The calls of one connection that were cancelled; `told` gets a late one's key and result."""

    def __init__(self, clock: Clock, told: Told) -> None:
        self._clock = clock
        self._told = told
        self._under_way: dict[str, str] = {}
        self._given_up: dict[str, tuple[str, int]] = {}

    def sent(self, message: JSONRPCMessage) -> None:
        """Notice a call that begins, and one that is cancelled."""
        match message:
            case JSONRPCRequest(method="tools/call", id=ident, params={"_meta": meta}):
                self._under_way[str(ident)] = meta[IDEMPOTENCY_KEY]
            case JSONRPCNotification(method="notifications/cancelled", params={"requestId": ident}):
                self._give_up(str(ident))
            case _:
                pass

    def received(self, message: JSONRPCMessage) -> None:
        """Notice an answer. An error is no result: most servers say so that they have stopped."""
        match message:
            case JSONRPCResponse(id=ident, result=result):
                self._under_way.pop(str(ident), None)
                key, until = self._given_up.pop(str(ident), ("", 0))
                if self._clock.now_ms() < until:
                    self._told(key, result)
            case JSONRPCError(id=ident):
                self._under_way.pop(str(ident), None)
                self._given_up.pop(str(ident), None)
            case _:
                pass

    def _give_up(self, ident: str) -> None:
        key = self._under_way.pop(ident, None)
        if key is None:
            return
        if len(self._given_up) == MAX_GIVEN_UP:
            del self._given_up[next(iter(self._given_up))]
        self._given_up[ident] = key, self._clock.now_ms() + int(LATE_S * 1000)


@asynccontextmanager
async def overheard(transport: Transport, calls: GivenUpCalls) -> AsyncIterator[TransportStreams]:
    """The transport, with `calls` noticing every message that passes."""
    async with transport as (received, sent):
        yield _Received(received, calls), _Sent(sent, calls)


class _Passing(Generic[_Stream]):
    """A stream whose messages are noticed; it lasts as long as the one inside."""

    def __init__(self, inner: _Stream, calls: GivenUpCalls) -> None:
        self._inner = inner
        self._calls = calls

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def __aenter__(self) -> Self:
        await self._inner.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool | None:
        return await self._inner.__aexit__(kind, error, trace)


class _Received(_Passing["ReadStream[SessionMessage | Exception]"]):
    """The stream from the server."""

    @property
    def last_context(self) -> Context | None:
        """That of whoever sent the latest message, where the transport knows it."""
        context: Context | None = getattr(self._inner, "last_context", None)
        return context

    async def receive(self) -> SessionMessage | Exception:
        return self._noticed(await self._inner.receive())

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        return self._noticed(await anext(self._inner))

    def _noticed(self, item: SessionMessage | Exception) -> SessionMessage | Exception:
        if not isinstance(item, Exception):
            self._calls.received(item.message)
        return item


class _Sent(_Passing["WriteStream[SessionMessage]"]):
    """The stream to the server."""

    async def send(self, item: SessionMessage, /) -> None:
        self._calls.sent(item.message)
        await self._inner.send(item)
