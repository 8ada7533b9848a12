"""How a request passes the edge: the one path that every route of `/v1` takes.

In this order: the token, the rate, the scope, what the client accepts, the parameters, the body,
and then, for a write, the idempotency key. A write has one transaction, committed here and nowhere
else: its effect, its answer and its key become true together, and whatever raises leaves nothing
behind.

A route is declared with its operation id and its scopes; the description carries the scopes as the
security of the operation, and the route reads them from there.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute
from pydantic import JsonValue
from starlette.requests import Request
from starlette.responses import Response
from typing_extensions import override

from app.api.bodies import JSON_TYPE, ReadRequest, parse_json, read_body
from app.api.edge import BODY_BYTES, CALL, Call, Edge, ReadCall, WriteCall, edge_of
from app.api.idempotency import claim_of
from app.api.problems import NotAcceptable
from app.service.access.tokens import Authenticated
from app.service.refusals import FieldFault, NotFound, RequestInvalid, TokenRefused

Endpoint = Callable[[Request], Awaitable[Response]]
Declared = Callable[[Callable[..., Any]], Callable[..., Any]]

SECURITY: Final = "bearer"
_SCHEME: Final = "bearer "
PREPARED: Final = "turngate.prepared"
_BODILESS: Final = frozenset({"GET", "HEAD"})


async def authenticated(request: Request, edge: Edge) -> Authenticated:
    """Who sends the request, by its Authorization header. Raises TokenRefused."""
    header, *others = request.headers.getlist("authorization") or [""]
    if not header:
        raise TokenRefused("no access token: the header Authorization: Bearer TOKEN is expected")
    # Of two headers a proxy may have checked the other one.
    if others or header[: len(_SCHEME)].lower() != _SCHEME:
        raise TokenRefused("the access token is missing, invalid or expired")
    return await edge.access.authenticate(header[len(_SCHEME) :].strip())


class EdgeRoute(APIRoute):
    """A route for whoever has the scope; it gets a Call without a session.

    `takes_key` and `headers` (of `description`) say what else the description tells of it.
    """

    media_types: Sequence[str] = (JSON_TYPE,)
    takes_key: bool = False
    headers: Sequence[str] = ()

    @property
    def scopes(self) -> tuple[str, ...]:
        """The scopes of which any one opens the route."""
        security: list[dict[str, list[str]]] = (self.openapi_extra or {}).get("security", [])
        return tuple(scope for requirement in security for scope in requirement[SECURITY])

    @override
    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """The framework's handler behind the checks of the edge."""
        endpoint = super().get_route_handler()
        scopes = self.scopes
        parameters = frozenset(_query_names(self.dependant))
        takes_body = self.body_field is not None

        async def handle(request: Request) -> Response:
            edge = edge_of(request)
            who = await authenticated(request, edge)
            if edge.rates is not None:
                edge.rates.count(who.caller)
            who.caller.require(*scopes)
            _require_sound_path(request)
            self.require_acceptable(request)
            _require_known_parameters(request, parameters)
            raw, value = await self.read(request, takes_body=takes_body)
            call = Call(edge, who, claim_of(request, raw, value))
            return await self.serve(ReadRequest(request, raw, value), call, endpoint)

        return handle

    async def read(self, request: Request, *, takes_body: bool) -> tuple[bytes, JsonValue]:
        """The body's bytes and value; a route without a body takes a blank one or `{}`."""
        return await _read(request, takes_body)

    async def serve(self, request: Request, call: Call, endpoint: Endpoint) -> Response:
        """Answer the request with nothing but the call."""
        request.scope[CALL] = call
        return await endpoint(request)

    def require_acceptable(self, request: Request) -> None:
        """Refuse a client that takes no form the answer has. Raises NotAcceptable."""
        # Browsers and clients send this one; it need not be taken apart.
        accepted = request.headers.get("accept", "") or "*/*"
        if accepted == "*/*" or names(accepted, *_ranges_of(self.media_types)):
            return
        raise NotAcceptable(f"the answer has the form {' or '.join(self.media_types)}")


class ReadRoute(EdgeRoute):
    """A route that reads: it gets a session of the caller's tenant."""

    @override
    async def serve(self, request: Request, call: Call, endpoint: Endpoint) -> Response:
        """Answer the request within a session."""
        async with call.edge.database.session(call.caller.tenant) as session:
            request.scope[CALL] = ReadCall(call.edge, call.who, call.claim, session)
            return await endpoint(request)


class WriteRoute(EdgeRoute):
    """A route that changes something: one request, one transaction."""

    takes_key = True

    @override
    async def serve(self, request: Request, call: Call, endpoint: Endpoint) -> Response:
        """Answer the request, or repeat its first answer, within one transaction."""
        async with call.edge.database.transaction(call.caller.tenant) as tx:
            if call.claim is not None:
                first = await call.claim.answered(tx, call.caller, call.edge.clock)
                if first is not None:
                    return first
            request.scope[CALL] = WriteCall(call.edge, call.who, call.claim, tx)
            response = await endpoint(request)
            if call.claim is not None:
                await call.claim.keep(tx, call.caller, response)
            return response


class PreparedRoute(WriteRoute):
    """A write before which something slow is done; its first answer is repeated without that.

    So a server that takes its time holds nothing but the request.
    """

    @override
    async def serve(self, request: Request, call: Call, endpoint: Endpoint) -> Response:
        """Prepare, then answer the request within one transaction."""
        if call.claim is not None:
            edge = call.edge
            first = await call.claim.first_answer(edge.database, call.caller, edge.clock)
            if first is not None:
                return first
        request.scope[PREPARED] = await self.prepared(request, call)
        return await super().serve(request, call, endpoint)

    @abstractmethod
    async def prepared(self, request: Request, call: Call) -> object:
        """What the endpoint gets as its `Prepared`."""


async def _prepared(request: Request) -> Any:
    return request.scope[PREPARED]


Prepared = Annotated[Any, Depends(_prepared)]


class Routes(APIRouter):
    """A router whose routes are declared with their scopes; see the module for the kinds."""

    def open(
        self,
        method: str,
        path: str,
        operation: str,
        *,
        scope: str,
        kind: type[EdgeRoute] = EdgeRoute,
        **more: Any,
    ) -> Declared:
        """Declare a route that needs neither session nor transaction."""
        return self._declare(kind, method, path, operation, scope=scope, **more)

    def read(
        self,
        path: str,
        operation: str,
        *,
        scope: str,
        method: str = "GET",
        kind: type[ReadRoute] = ReadRoute,
        **more: Any,
    ) -> Declared:
        """Declare a route with a session, which stores nothing."""
        return self._declare(kind, method, path, operation, scope=scope, **more)

    def write(
        self,
        method: str,
        path: str,
        operation: str,
        *,
        scope: str,
        kind: type[WriteRoute] = WriteRoute,
        **more: Any,
    ) -> Declared:
        """Declare a route with a transaction."""
        return self._declare(kind, method, path, operation, scope=scope, **more)

    def _declare(
        self,
        kind: type[EdgeRoute],
        method: str,
        path: str,
        operation: str,
        *,
        scope: str,
        **more: Any,
    ) -> Declared:
        """Several scopes, any of which opens the route, are separated by spaces."""
        extra = {"security": [{SECURITY: [name]} for name in scope.split()]}
        extra |= more.pop("openapi_extra", {})

        def declare(endpoint: Callable[..., Any]) -> Callable[..., Any]:
            self.add_api_route(
                path,
                endpoint,
                methods=[method],
                operation_id=operation,
                openapi_extra=extra,
                route_class_override=kind,
                **more,
            )
            return endpoint

        return declare


async def _read(request: Request, takes_body: bool) -> tuple[bytes, JsonValue]:
    """The body's bytes and value; a route without a body takes a blank one or `{}`."""
    if request.method in _BODILESS:
        return b"", None
    raw = await read_body(request, BODY_BYTES)
    if not raw.strip():
        if takes_body:
            raise RequestInvalid("the body is blank", faults=(FieldFault("", "is blank"),))
        return b"", None
    value = parse_json(request, raw)
    if not takes_body and value != {}:
        raise RequestInvalid("the route takes no body", faults=(FieldFault("", "takes no body"),))
    return raw, value


def _require_sound_path(request: Request) -> None:
    # No id or name has U+0000, and Postgres would not even take the question.
    if any("\0" in part for part in request.path_params.values()):
        raise NotFound


def _query_names(dependant: Dependant) -> Iterator[str]:
    """The query parameters of a route and of all it depends on."""
    yield from (field.alias for field in dependant.query_params)
    for one in dependant.dependencies:
        yield from _query_names(one)


def _require_known_parameters(request: Request, known: frozenset[str]) -> None:
    if not request.url.query:
        return
    given = [name for name, _ in request.query_params.multi_items()]
    for name in given:
        if name not in known or given.count(name) > 1:
            problem = "is given twice" if name in known else "is unknown"
            fault = FieldFault(f"/query/{name}", problem)
            raise RequestInvalid(f"a query parameter {problem}", faults=(fault,))


def names(accept: str, *media_ranges: str) -> bool:
    """Whether an Accept header names one of the media ranges, and not to refuse it."""
    for entry in accept.lower().split(","):
        name, *parameters = (part.strip() for part in entry.split(";"))
        refused = any(_is_zero(parameter) for parameter in parameters)
        if name in media_ranges and not refused:
            return True
    return False


def _ranges_of(media_types: Sequence[str]) -> Iterator[str]:
    """Everything in an Accept header that one of the types satisfies."""
    yield "*/*"
    for media_type in media_types:
        yield from (media_type, media_type.partition("/")[0] + "/*")


def _is_zero(parameter: str) -> bool:
    name, _, value = parameter.partition("=")
    return name.strip() == "q" and value.strip().rstrip("0") in ("", ".", "0.")
