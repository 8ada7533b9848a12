"""Browser origins: those that are allowed get CORS headers, all others get none (service.md 1)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

_EXPOSED: Final = (
    "Accept-Ranges, Content-Range, ETag, Location, Idempotent-Replayed, Preference-Applied, "
    "Retry-After, X-Request-Id"
)
_ALLOWED_HEADERS: Final = (
    "Authorization, Content-Type, Idempotency-Key, If-Match, If-None-Match, If-Range, "
    "Last-Event-ID, Prefer, Range, X-Request-Id"
)
_PREFLIGHT: Final = {
    "Access-Control-Allow-Methods": "GET, POST, PUT, PATCH, DELETE",
    "Access-Control-Allow-Headers": _ALLOWED_HEADERS,
    "Access-Control-Max-Age": "600",
}


class Cors:
    """Answers preflights of allowed origins, and marks answers to them. No cookie is ever used."""

    def __init__(self, app: ASGIApp, *, origins: frozenset[str]) -> None:
        self._app = app
        self._origins = origins

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or answer it if it is a preflight."""
        if scope["type"] != "http" or not self._origins:
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        origin = headers.get("origin")
        if origin in self._origins and _is_preflight(scope["method"], headers):
            response = Response(status_code=204, headers={**_PREFLIGHT, **_mark(origin)})
            await response(scope, receive, send)
            return
        marks = _mark(origin) if origin in self._origins else {"Vary": "Origin"}

        async def answer(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(marks)
            await send(message)

        await self._app(scope, receive, answer)


def _is_preflight(method: str, headers: Headers) -> bool:
    return method == "OPTIONS" and "access-control-request-method" in headers


def _mark(origin: str | None) -> dict[str, str]:
    return {
        "Access-Control-Allow-Origin": origin or "",
        "Access-Control-Expose-Headers": _EXPOSED,
        "Vary": "Origin",
    }
