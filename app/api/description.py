"""The description at `/openapi.json`: what generated clients live on (service.md 1).

The framework describes bodies and answers; what is the same for every operation is added here, by
reference: the problems, the idempotency key, the token.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute

from app.api.idempotency import MAX_CHARS
from app.api.links import link
from app.api.members import describe_members
from app.api.problems import MEDIA_TYPE, Fault, Problem
from app.api.routes import SECURITY, EdgeRoute
from app.api.uploads import UPLOAD_SCHEMAS
from app.api.vocabulary import named_schemas, with_names

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from starlette.routing import BaseRoute

VERSION: Final = "1"
_SUMMARY: Final = (
    "Runs of AI agents behind an approval gate: signed decisions, a durable log, resumable streams."
)
_ANY: Final = ("401", "403", "404", "406", "422", "429", "500", "503")
# A route without a body reads one as well, and refuses all but a blank one.
_SENT: Final = ("413", "415")
_OPEN: Final = ("500", "503")
# What only some places of artifacts can do.
_PLACE_BOUND: Final = frozenset({"presign_artifact"})
_BY_HEADER: Final = {"if-match": "412", "range": "416"}
_NAMES: Final = {
    "401": "Unauthorized",
    "403": "Forbidden",
    "404": "NotFound",
    "406": "NotAcceptable",
    "409": "Conflict",
    "412": "PreconditionFailed",
    "413": "TooLarge",
    "415": "UnsupportedMediaType",
    "416": "RangeNotSatisfiable",
    "422": "Invalid",
    "429": "TooMany",
    "500": "Internal",
    "501": "Unsupported",
    "503": "Unavailable",
}
_PARAMETERS: Final[dict[str, dict[str, Any]]] = {
    "IdempotencyKey": {
        "name": "Idempotency-Key",
        "in": "header",
        "description": "The same request with the same key gets its first answer again",
        "schema": {"type": "string", "minLength": 1, "maxLength": MAX_CHARS},
    },
    "Prefer": {
        "name": "Prefer",
        "in": "header",
        "description": "`wait=N`: answer when the run is paused or over, or after 1 to 60 seconds",
        "schema": {"type": "string"},
    },
}
_GENERATED: Final = ("HTTPValidationError", "ValidationError")


def describe(routes: Sequence[BaseRoute]) -> dict[str, Any]:
    """The OpenAPI document of the routes."""
    described = get_openapi(
        title="Turngate",
        version=VERSION,
        description=_SUMMARY,
        routes=routes,
        separate_input_output_schemas=False,
    )
    document: dict[str, Any] = with_names(described)
    components = document.setdefault("components", {})
    schemas = components.setdefault("schemas", {})
    for name in _GENERATED:
        schemas.pop(name, None)
    schemas.update(_problem_schemas() | named_schemas() | UPLOAD_SCHEMAS)
    describe_members(schemas)
    components["schemas"] = dict(sorted(schemas.items()))
    components["responses"] = {name: _problem(name) for name in _NAMES.values()}
    components["parameters"] = _PARAMETERS
    components["securitySchemes"] = {
        SECURITY: {"type": "http", "scheme": "bearer", "bearerFormat": "JWT"}
    }
    for path, method, route in _operations(routes):
        _complete(document["paths"][path][method], route)
    link(document)
    return document


def openapi_text(routes: Sequence[BaseRoute]) -> bytes:
    """The description as it is committed: two spaces, one line break at the end."""
    return (json.dumps(describe(routes), indent=2, ensure_ascii=False) + "\n").encode()


def _operations(routes: Sequence[BaseRoute]) -> Iterator[tuple[str, str, APIRoute]]:
    for route in routes:
        if isinstance(route, APIRoute) and route.include_in_schema:
            for method in route.methods or ():
                yield route.path_format, method.lower(), route


def _complete(operation: dict[str, Any], route: APIRoute) -> None:
    responses = operation["responses"]
    if not isinstance(route, EdgeRoute):
        responses.pop("422", None)
        _document(responses, _OPEN)
        return
    parameters = operation.setdefault("parameters", [])
    told = {parameter["name"].lower() for parameter in parameters}
    reads = route.methods == {"GET"}
    statuses = {*_ANY, *(() if reads else _SENT)}
    statuses.update(status for header, status in _BY_HEADER.items() if header in told)
    if route.takes_key or "requestBody" in operation:
        statuses.add("409")
    if route.operation_id in _PLACE_BOUND:
        statuses.add("501")
    names = [*(["IdempotencyKey"] if route.takes_key else []), *route.headers]
    parameters.extend(_reference("parameters", name) for name in names)
    if not parameters:
        del operation["parameters"]
    _document(responses, statuses)


def _document(responses: dict[str, Any], statuses: Collection[str]) -> None:
    for status in sorted(statuses):
        responses[status] = _reference("responses", _NAMES[status])


def _reference(kind: str, name: str) -> dict[str, str]:
    return {"$ref": f"#/components/{kind}/{name}"}


def _problem(name: str) -> dict[str, Any]:
    schema = _reference("schemas", "Problem")
    return {"description": f"{name}: a problem", "content": {MEDIA_TYPE: {"schema": schema}}}


def _problem_schemas() -> dict[str, Any]:
    problem = Problem.model_json_schema(ref_template="#/components/schemas/{model}")
    problem.pop("$defs", None)
    return {"Problem": problem, "Fault": Fault.model_json_schema()}
