"""Requests of tools to the outside: addresses checked and pinned, answers bounded (service.md 3).

- The name is resolved here, every address it has is judged, and the connection is made to one of
  those addresses; Host and TLS go by the name. So nothing can change between check and connect.
- Connections are not kept: one that was made for a name must not serve another at its address.
- Redirects are followed here, one checked hop after the other, for the same reason.
- No proxy, cookie or credential is taken from anywhere. Nothing one call learns reaches another.
"""

from __future__ import annotations

import asyncio
import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import httpx

from app.tools.address import AddressRefused, AllowList, checked, target
from app.tools.outcomes import ADDRESS_REFUSED, TOOL_FAILED, answered, failed

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

    from app.tools.address import Target
    from app.turn.ports import ToolOutcome

    # From host and port to the texts of the addresses, in order of preference.
    Resolve = Callable[[str, int], Awaitable[Sequence[str]]]

MAX_BODY_BYTES: Final = 1024 * 1024
REQUEST_LIMIT_S: Final = 20.0
MAX_REDIRECTS: Final = 5
_LIMITS: Final = httpx.Limits(max_connections=256, max_keepalive_connections=0)
_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
_SAME_METHOD: Final = frozenset({307, 308})
_CHARSETS: Final = frozenset({"utf-8", "us-ascii", "iso-8859-1", "windows-1252", "utf-16"})
_HEADERS: Final = {"User-Agent": "turngate", "Accept": "*/*", "Accept-Encoding": "identity"}


class HttpFailed(Exception):
    """No answer came; the message is for the model."""


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer, whatever its status; `is_cut` if the body was longer than it may be."""

    status: int
    content_type: str
    body: str
    is_cut: bool


@dataclass(frozen=True, slots=True)
class _Sending:
    """One hop."""

    method: str
    to: Target
    headers: Mapping[str, str]
    body: bytes


async def outcome_of(answer: Awaitable[Answer]) -> ToolOutcome:
    """The outcome of a tool that waits for `answer`."""
    try:
        got = await answer
    except AddressRefused as error:
        return failed(ADDRESS_REFUSED, str(error))
    except HttpFailed as error:
        return failed(TOOL_FAILED, str(error))
    result = {"status": got.status, "content_type": got.content_type, "body": got.body}
    return answered(result | ({"truncated": True} if got.is_cut else {}))


async def system_resolve(host: str, port: int) -> list[str]:
    """The addresses the system's resolver has for a host; none if it knows no such host."""
    loop = asyncio.get_running_loop()
    try:
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return []
    return list(dict.fromkeys(str(sockaddr[0]) for *_, sockaddr in found))


class OutboundHttp:
    """The way out of every HTTP tool; one per process, closed by `aclose`."""

    def __init__(
        self,
        allow_hosts: Iterable[str] = (),
        *,
        resolve: Resolve = system_resolve,
        limit_s: float = REQUEST_LIMIT_S,
    ) -> None:
        self._allowed = AllowList.of(allow_hosts)
        self._limit_s = limit_s
        self._resolve = resolve
        self._transport: httpx.AsyncHTTPTransport | None = None

    async def get(self, url: str) -> Answer:
        """The answer to a GET. Raises AddressRefused and HttpFailed."""
        return await self._ask("GET", url, b"", {})

    async def post(self, url: str, body: bytes, headers: Mapping[str, str]) -> Answer:
        """The answer to a POST. Raises AddressRefused and HttpFailed."""
        return await self._ask("POST", url, body, headers)

    async def aclose(self) -> None:
        """Close what is open."""
        if self._transport is not None:
            await self._transport.aclose()

    async def _ask(self, method: str, url: str, body: bytes, headers: Mapping[str, str]) -> Answer:
        try:
            async with asyncio.timeout(self._limit_s):
                return await self._follow(
                    _Sending(method, target(url, self._allowed), headers, body)
                )
        except httpx.HTTPError as error:
            raise HttpFailed(f"the request failed: {type(error).__name__}") from error
        except TimeoutError as error:
            raise HttpFailed(f"no answer within {self._limit_s:g} s") from error

    async def _follow(self, sending: _Sending) -> Answer:
        for _ in range(MAX_REDIRECTS + 1):
            response = await self._send(sending)
            try:
                location = response.headers.get("location")
                if response.status_code not in _REDIRECTS or location is None:
                    return await _answer(response)
            finally:
                await response.aclose()
            sending = self._redirected(sending, response.status_code, location)
        raise HttpFailed(f"more than {MAX_REDIRECTS} redirects")

    def _redirected(self, sending: _Sending, status: int, location: str) -> _Sending:
        try:
            url = sending.to.url.join(location)
        except (httpx.InvalidURL, ValueError) as error:
            raise AddressRefused("redirected to what is no URL") from error
        onward = target(url, self._allowed)
        if sending.method == "GET" or status not in _SAME_METHOD:
            return _Sending("GET", onward, {}, b"")
        if onward.origin != sending.to.origin:
            raise HttpFailed("redirected to another origin; the text was not sent there")
        return _Sending(sending.method, onward, sending.headers, sending.body)

    async def _send(self, sending: _Sending) -> httpx.Response:
        """Connect to an address of the name and send; the next one only if none was reached."""
        to = sending.to
        resolved = await self._resolve(to.host, to.port)
        if not to.is_exempt:
            resolved = [str(address) for address in checked(to.host, resolved)]
        unreached = httpx.ConnectError("no address")
        for address in resolved:
            try:
                return await self._opened().handle_async_request(_request(sending, address))
            except httpx.ConnectError as error:
                unreached = error
        raise unreached

    def _opened(self) -> httpx.AsyncHTTPTransport:
        """The transport, made at the first use: it reads the system's certificates."""
        if self._transport is None:
            self._transport = httpx.AsyncHTTPTransport(trust_env=False, limits=_LIMITS)
        return self._transport


def _request(sending: _Sending, address: str) -> httpx.Request:
    url = sending.to.url
    return httpx.Request(
        sending.method,
        url.copy_with(host=address),
        headers={"Host": url.netloc.decode("ascii"), **_HEADERS, **sending.headers},
        content=sending.body if sending.method == "POST" else None,
        extensions={"sni_hostname": sending.to.host},
    )


async def _answer(response: httpx.Response) -> Answer:
    coding = response.headers.get("content-encoding", "identity").lower()
    if coding != "identity":
        raise HttpFailed(f"expected a plain body, as asked for, found {coding!r}")
    body = bytearray()
    async for chunk in response.aiter_raw():
        body += chunk
        if len(body) > MAX_BODY_BYTES:
            break
    charset = (response.charset_encoding or "").lower()
    return Answer(
        status=response.status_code,
        content_type=response.headers.get("content-type", ""),
        body=bytes(body[:MAX_BODY_BYTES]).decode(
            charset if charset in _CHARSETS else "utf-8", errors="replace"
        ),
        is_cut=len(body) > MAX_BODY_BYTES,
    )
