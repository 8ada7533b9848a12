"""Problem documents (RFC 9457): the only form in which an error leaves the service.

A refusal brings its code, its sentence, its faults and its members; everything else that the
framework raises is translated here. What is not expected becomes `internal`, without a word of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import orjson
from fastapi.exceptions import RequestValidationError
from pydantic import ConfigDict
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match, Route

from app.api.codes import RETRY_AFTER_S, answer_of
from app.api.ranges import RangeUnsatisfiable
from app.api.wire import Document, SparseDocument
from app.engine.json.pointer import pointer_token
from app.errors import TurngateError
from app.service.access.rates import RateLimited
from app.service.refusals import FieldFault, NotFound, Refusal, RequestInvalid, ScopeMissing

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fastapi import FastAPI

MEDIA_TYPE: Final = "application/problem+json"
REQUEST_ID: Final = "turngate.request_id"
_ABSENT: Final = object()


class Fault(Document):
    """What is wrong with one member or parameter."""

    pointer: str
    detail: str


class Problem(SparseDocument):
    """An error; `code` is stable and `instance` the id of the request."""

    model_config = ConfigDict(frozen=True, extra="allow")

    type: str
    title: str
    status: int
    detail: str
    code: str
    instance: str
    errors: list[Fault] | None = None


class BodyTooLarge(Refusal):
    """The body is over its bound."""

    code = "body.too_large"


class MediaTypeRefused(Refusal):
    """The body is not of the media type that the route takes."""

    code = "body.media_type"


class MethodNotAllowed(Refusal):
    """The resource is there, and does not take the method."""

    code = "method_not_allowed"


class NotAcceptable(Refusal):
    """The client takes none of the forms that the route has."""

    code = "not_acceptable"


def problem_of(error: TurngateError, request_id: str) -> dict[str, Any]:
    """The problem document of an error."""
    answer = answer_of(error.code)
    faults = error.faults if isinstance(error, Refusal) else ()
    members = error.members if isinstance(error, Refusal) else {}
    document: dict[str, Any] = {
        **members,
        "type": f"urn:turngate:problem:{error.code}",
        "title": answer.title,
        "status": answer.status,
        "detail": error.message if answer.status != 500 else answer.title,
        "code": error.code,
        "instance": request_id,
    }
    if faults:
        document["errors"] = [
            {"pointer": fault.pointer, "detail": fault.detail} for fault in faults
        ]
    return document


def _problem_response(error: TurngateError, request_id: str) -> Response:
    """The answer that tells of an error."""
    document = problem_of(error, request_id)
    status: int = document["status"]
    return Response(
        orjson.dumps(document),
        status_code=status,
        media_type=MEDIA_TYPE,
        headers=_headers(error, status),
    )


def internal_response(request_id: str) -> Response:
    """The answer to what nobody expected."""
    return _problem_response(TurngateError("internal"), request_id)


def install_problems(app: FastAPI) -> None:
    """Make every error of the house and of the framework a problem document."""
    app.add_exception_handler(TurngateError, _on_error)
    app.add_exception_handler(RequestValidationError, _on_invalid)
    app.add_exception_handler(HTTPException, _on_http)


async def _on_error(request: Request, error: Exception) -> Response:
    known = error if isinstance(error, TurngateError) else TurngateError("internal")
    return _problem_response(known, request_id_of(request))


async def _on_invalid(request: Request, error: Exception) -> Response:
    if not isinstance(error, RequestValidationError):
        return internal_response(request_id_of(request))
    faults = tuple(
        FieldFault(_pointer(fault["loc"], error.body), _sentence(fault["msg"]))
        for fault in error.errors()
    )
    refusal = RequestInvalid(str(faults[0]), faults=faults)
    return _problem_response(refusal, request_id_of(request))


async def _on_http(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    response = _problem_response(_refusal_for(status), request_id_of(request))
    if status == 405:
        response.headers["Allow"] = ", ".join(_methods_of(request))
    return response


def _methods_of(request: Request) -> list[str]:
    """The methods of the path. A path that is spelled out is meant before one with parameters."""
    here = [
        route
        for route in request.app.routes
        if isinstance(route, Route) and route.matches(request.scope)[0] is not Match.NONE
    ]
    meant = min(here, key=lambda route: len(route.param_convertors)).path
    return sorted(method for route in here if route.path == meant for method in route.methods or ())


def _refusal_for(status: int) -> TurngateError:
    match status:
        case 404:
            return NotFound()
        case 405:
            return MethodNotAllowed("the resource does not take this method")
        case _ if status < 500:
            return RequestInvalid("the request cannot be read")
        case _:
            return TurngateError("internal")


def request_id_of(request: Request) -> str:
    """The id of the request, given by its sender or by us."""
    ident: str = request.scope.get(REQUEST_ID, "")
    return ident


def _headers(error: TurngateError, status: int) -> Mapping[str, str]:
    if isinstance(error, RateLimited):
        return {"Retry-After": str(error.retry_after_s)}
    if status in RETRY_AFTER_S:
        return {"Retry-After": str(RETRY_AFTER_S[status])}
    if error.code == "auth.token":
        return {"WWW-Authenticate": 'Bearer error="invalid_token"'}
    if isinstance(error, ScopeMissing):
        scope = error.members["scope"]
        return {"WWW-Authenticate": f'Bearer error="insufficient_scope", scope="{scope}"'}
    if isinstance(error, RangeUnsatisfiable):
        return {"Content-Range": f"bytes */{error.members['size_bytes']}"}
    return {}


def _pointer(loc: tuple[int | str, ...], body: object) -> str:
    """The JSON pointer of a fault: into the body, or of a parameter."""
    where, *path = loc
    if where != "body":
        return "/" + "/".join(str(part) for part in loc)
    pointer, here = "", body
    for part in path:
        # pydantic also names the member of a union it tried; the body knows nothing of that.
        if isinstance(here, dict):
            here = here.get(part, _ABSENT)
        elif isinstance(here, list) and isinstance(part, int):
            here = here[part]
        else:
            continue
        pointer += "/" + pointer_token(str(part))
    return pointer


def _sentence(message: str) -> str:
    return message.removeprefix("Value error, ")
