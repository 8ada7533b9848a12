"""The outermost layer: request ids, the last catch, and the measure of every request.

Pure ASGI: no task, no queue, nothing per request but a closure.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import structlog
from prometheus_client import Histogram
from starlette.datastructures import MutableHeaders
from starlette.requests import ClientDisconnect

from app.api.problems import REQUEST_ID, internal_response

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from app.service.clock import Clock

HEADER: Final = "x-request-id"
_SOUND: Final = re.compile(rb"[A-Za-z0-9._:/+=@-]{1,128}")
# Waits that a client asked for are in here too, hence the long tail.
_BUCKETS: Final = (0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10, 60)
_UNMATCHED: Final = "unmatched"
_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})

log = structlog.get_logger(__name__)


class BrokenOff(Exception):
    """An answer that has begun cannot be ended, and nothing is wrong but that; it says why."""


class Door:
    """Gives every request its id and every answer the same, and lets no error through unanswered.

    A request id that the sender chose is kept if it is sound; one that could break a log line or a
    header is replaced.
    """

    def __init__(self, app: ASGIApp, *, clock: Clock, registry: CollectorRegistry) -> None:
        self._app = app
        self._clock = clock
        self._seconds = Histogram(
            "turngate_http_request_seconds",
            "Time from a request's head to the end of its answer",
            ("method", "route", "status"),
            buckets=_BUCKETS,
            registry=registry,
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on; everything but HTTP goes through untouched."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id = _sent_id(scope) or self._clock.mint("req")
        scope[REQUEST_ID] = request_id
        began = self._clock.monotonic()
        status = 0

        async def answer(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                MutableHeaders(scope=message)[HEADER] = request_id
            await send(message)

        try:
            await self._app(scope, receive, answer)
        except ClientDisconnect:
            status = status or 499
        except BrokenOff as broken:
            log.info("request.broken_off", request_id=request_id, reason=str(broken))
        except Exception:  # The root of a request: whatever happened, there is an answer.
            log.exception("request.failed", request_id=request_id, route=_route_of(scope))
            if status == 0:
                await internal_response(request_id)(scope, receive, answer)
        finally:
            labels = (_method_of(scope), _route_of(scope), str(status))
            self._seconds.labels(*labels).observe(self._clock.monotonic() - began)


def _sent_id(scope: Scope) -> str | None:
    for name, value in scope["headers"]:
        if name == b"x-request-id":
            sound = _SOUND.fullmatch(value)
            return value.decode() if sound else None
    return None


def _route_of(scope: Scope) -> str:
    """The template of the route, so that no id or name becomes a label."""
    path: str = getattr(scope.get("route"), "path", _UNMATCHED)
    return path


def _method_of(scope: Scope) -> str:
    # A method may be any word of the sender's, and labels must be few.
    method: str = scope["method"]
    return method if method in _METHODS else "other"
