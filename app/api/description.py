"""The description at `/openapi.json`: what generated clients live on (service.md 1).

The framework describes bodies and answers; what is the same for every operation is added here, by
reference: the problems, the idempotency key, the token.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from fastapi.openapi.utils import get_openapi

from app.api.idempotency import MAX_CHARS
from app.api.problems import MEDIA_TYPE, Fault, Problem
from app.api.routes import SECURITY, WriteRoute

if TYPE_CHECKING:
    from fastapi import FastAPI

VERSION: Final = "1"
_SUMMARY: Final = (
    "Runs of AI agents behind an approval gate: signed decisions, a durable log, resumable streams."
)
_ANY: Final = ("401", "403", "404", "406", "422", "429", "500", "503")
_BODY: Final = ("409", "413", "415")
_NAMES: Final = {
    "401": "Unauthorized",
    "403": "Forbidden",
    "404": "NotFound",
    "406": "NotAcceptable",
    "409": "Conflict",
    "412": "PreconditionFailed",
    "413": "TooLarge",
    "415": "UnsupportedMediaType",
    "422": "Invalid",
    "429": "TooMany",
    "500": "Internal",
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
_METHODS: Final = ("get", "put", "post", "patch", "delete")
_GENERATED: Final = ("HTTPValidationError", "ValidationError")


def describe(app: FastAPI) -> dict[str, Any]:
    """The OpenAPI document of the application."""
    document = get_openapi(
        title="Turngate",
        version=VERSION,
        description=_SUMMARY,
        routes=app.routes,
        separate_input_output_schemas=False,
    )
    components = document.setdefault("components", {})
    schemas = components.setdefault("schemas", {})
    for name in _GENERATED:
        schemas.pop(name, None)
    schemas.update(_problem_schemas())
    components["schemas"] = dict(sorted(schemas.items()))
    components["responses"] = {name: _problem(name) for name in _NAMES.values()}
    components["parameters"] = _PARAMETERS
    components["securitySchemes"] = {
        SECURITY: {"type": "http", "scheme": "bearer", "bearerFormat": "JWT"}
    }
    writes = {route.operation_id for route in app.routes if isinstance(route, WriteRoute)} | {
        "decide_batch"
    }
    for path, operations in document["paths"].items():
        for method in _METHODS:
            if method in operations:
                _complete(operations[method], is_v1=path.startswith("/v1/"), writes=writes)
    return document


def openapi_document(app: FastAPI) -> bytes:
    """The description as it is committed: stable order, two spaces, one line break at the end."""
    return (json.dumps(describe(app), indent=2, ensure_ascii=False) + "\n").encode()


def _complete(operation: dict[str, Any], *, is_v1: bool, writes: set[str | None]) -> None:
    responses = operation["responses"]
    if not is_v1:
        responses.pop("422", None)
        return
    has_body = "requestBody" in operation
    takes_tag = any(p.get("name") == "if-match" for p in operation.get("parameters", ()))
    statuses = (*_ANY, *(_BODY if has_body else ()), *(("412",) if takes_tag else ()))
    if operation["operationId"] in writes:
        statuses = (*statuses, "409")
        operation.setdefault("parameters", []).append(_reference("parameters", "IdempotencyKey"))
    if operation["operationId"] == "create_run":
        operation["parameters"].append(_reference("parameters", "Prefer"))
    for status in sorted(set(statuses)):
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
