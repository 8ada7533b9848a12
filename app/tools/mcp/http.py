"""The HTTP transport: as for the HTTP tools, what was checked is what is connected to.

- Every request's host is resolved and judged, and the connection goes to one of those addresses;
  Host and TLS go by the name. The library follows redirects within the origin only, each of them a
  request like any other.
- The stream that a server may push at will is not opened: definitions are asked for, and nothing
  else that a server says unasked is listened to.
- A dropped stream of a call that is under way has `GRACE_S` to be taken up again. A request that
  got no answer fails alone: what is under way beside it goes on.
- An answer is bounded in bytes and in time; no proxy is taken from anywhere.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, cast

import httpx2
from typing_extensions import override

from app.tools.address import AddressRefused, target
from app.tools.mcp.reach import GRACE_S, RETRY_S

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from app.tools.address import Target
    from app.tools.mcp.reach import Web

# Codes of our own for a request that was not sent, and for one that got no answer.
NOT_SENT: Final = -32050
NO_ANSWER: Final = -32051
CONNECT_S: Final = 10.0
MAX_ANSWER_BYTES: Final = 4 * 1024 * 1024
# Longer than a call may take, with all of a pause for a server that is gone for a while.
MAX_ANSWER_S: Final = 120.0
_LIMITS: Final = httpx2.Limits(max_connections=64, max_keepalive_connections=8)
_NOT_BACK_YET: Final = frozenset({502, 503, 504})
_PLAIN: Final = {"accept-encoding": "identity", "user-agent": "turngate"}


# What a stream of events ends with that is not read on: an answer that cannot be read. One that
# just breaks off is taken for a lost connection, and a call that may be is sent again.
_UNREADABLE_EVENT: Final = b"\n\ndata: unreadable\n\n"


class AnswerUnreadable(httpx2.StreamError):
    """The answer was longer than it may be, or was packed."""


class AnswerCutOff(httpx2.StreamError):
    """The answer did not come to its end, or not in time."""


class PinnedTransport(httpx2.AsyncBaseTransport):
    """The way to one server; every request goes to an address that was judged for it."""

    def __init__(self, web: Web) -> None:
        self._web = web
        self._inner = httpx2.AsyncHTTPTransport(trust_env=False, limits=_LIMITS)
        self._gone_since: int | None = None

    @override
    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """The answer's head; its body is bounded."""
        if request.method != "GET":
            return await self._answered(request)
        if "last-event-id" not in request.headers:
            return httpx2.Response(405, request=request)
        return await self._resumed(request)

    @override
    async def aclose(self) -> None:
        """Close what is open."""
        await self._inner.aclose()

    async def _answered(self, request: httpx2.Request) -> httpx2.Response:
        try:
            return await self._send(request)
        except httpx2.ConnectError:
            return _error(request, NOT_SENT)
        except httpx2.TransportError:
            return _error(request, NO_ANSWER)

    async def _resumed(self, request: httpx2.Request) -> httpx2.Response:
        """The rest of a dropped stream, as soon as the server is there again."""
        if self._gone_since is None:
            self._gone_since = self._web.clock.now_ms()
        while True:
            is_last = self._web.clock.now_ms() - self._gone_since >= GRACE_S * 1000
            try:
                response = await self._send(request)
            except httpx2.TransportError:
                if is_last:
                    raise
            else:
                if response.status_code not in _NOT_BACK_YET or is_last:
                    self._gone_since = None
                    return response
                await response.aclose()
            await self._web.clock.sleep(RETRY_S)

    async def _send(self, request: httpx2.Request) -> httpx2.Response:
        try:
            to = target(str(request.url), self._web.allowed)
            addresses = await self._web.addresses(to)
        except AddressRefused as error:
            raise httpx2.ConnectError(str(error), request=request) from error
        unreached = httpx2.ConnectError("no address", request=request)
        for address in addresses:
            try:
                response = await self._inner.handle_async_request(_pinned(request, to, address))
            except httpx2.ConnectError as error:
                unreached = error
            else:
                return _bounded(response)
        raise unreached


def _error(request: httpx2.Request, code: int) -> httpx2.Response:
    """What the library takes for the answer to this request alone."""
    error = {"jsonrpc": "2.0", "id": None, "error": {"code": code, "message": "no answer"}}
    return httpx2.Response(503, json=error, request=request)


def _pinned(request: httpx2.Request, to: Target, address: str) -> httpx2.Request:
    headers = httpx2.Headers(request.headers)
    headers.update(_PLAIN)
    return httpx2.Request(
        request.method,
        request.url.copy_with(host=address),
        headers=headers,
        stream=request.stream,
        extensions={**request.extensions, "sni_hostname": to.host},
    )


def _bounded(response: httpx2.Response) -> httpx2.Response:
    # What answers asynchronously is read asynchronously.
    headers = httpx2.Headers(response.headers)
    stream = _BoundedStream(
        cast("httpx2.AsyncByteStream", response.stream),
        headers.pop("content-encoding", "identity"),
        has_events=headers.get("content-type", "").startswith("text/event-stream"),
    )
    return httpx2.Response(
        response.status_code,
        headers=headers,
        stream=stream,
        extensions=response.extensions,
    )


class _BoundedStream(httpx2.AsyncByteStream):
    def __init__(self, inner: httpx2.AsyncByteStream, coding: str, *, has_events: bool) -> None:
        self._inner = inner
        self._coding = coding
        self._has_events = has_events
        self._until = asyncio.get_running_loop().time() + MAX_ANSWER_S

    @override
    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for chunk in self._chunks():
                yield chunk
        except AnswerUnreadable:
            if not self._has_events:
                raise
            yield _UNREADABLE_EVENT

    async def _chunks(self) -> AsyncIterator[bytes]:
        if self._coding.lower() != "identity":
            raise AnswerUnreadable("the answer is packed, although a plain one was asked for")
        left = MAX_ANSWER_BYTES
        chunks = aiter(self._inner)
        while True:
            try:
                async with asyncio.timeout_at(self._until):
                    chunk = await anext(chunks)
            except StopAsyncIteration:
                return
            except (TimeoutError, httpx2.TransportError) as error:
                raise AnswerCutOff("the answer did not come to its end") from error
            left -= len(chunk)
            if left < 0:
                raise AnswerUnreadable("the answer is longer than it may be")
            yield chunk

    @override
    async def aclose(self) -> None:
        await self._inner.aclose()
