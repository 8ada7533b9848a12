"""What the service tells of itself: health, metrics, its public keys, its schemas.

All but the schemas need no token.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Final

from fastapi import APIRouter, Request, Response
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from pydantic import BaseModel, JsonValue

from app.api.edge import Calling, edge_of
from app.api.event_documents import Event
from app.api.frames import ClientFrame, ServerFrame
from app.api.members import describe_members
from app.api.routes import Routes
from app.api.wire import Document
from app.service.refusals import NotFound
from app.trust.decision import DecisionPayload

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
PUBLISHED: Final[dict[str, type[BaseModel]]] = {
    "event": Event,
    "client_frame": ClientFrame,
    "server_frame": ServerFrame,
    "decision_payload": DecisionPayload,
}

routes = Routes(tags=["service"])
open_routes = APIRouter(tags=["service"])


class Health(Document):
    """The process runs."""

    status: str


class Readiness(Document):
    """The process can work; `facts` are the database's own."""

    status: str
    facts: dict[str, JsonValue]


class ServiceKey(Document):
    """A public key of the service's own."""

    kty: str
    crv: str
    x: str
    y: str
    kid: str
    alg: str
    use: str


class ServiceKeys(Document):
    """The keys of the service's seals and statements, retired ones included."""

    keys: list[ServiceKey]


@open_routes.get("/healthz", operation_id="get_health")
async def get_health() -> Health:
    """Whether the process runs."""
    return Health(status="ok")


@open_routes.get("/readyz", operation_id="get_readiness")
async def get_readiness(request: Request) -> Readiness:
    """Whether the process can work: database, migrations, queue."""
    facts = await edge_of(request).database.ready()
    return Readiness(status="ready", facts=dict(facts))


@open_routes.get("/metrics", operation_id="get_metrics", response_class=Response)
async def get_metrics(request: Request) -> Response:
    """The measures of this process, for Prometheus."""
    text = generate_latest(edge_of(request).registry)
    return Response(text, headers={"Content-Type": CONTENT_TYPE_LATEST})


@open_routes.get("/.well-known/jwks.json", operation_id="get_service_keys")
async def get_service_keys(request: Request) -> ServiceKeys:
    """The public keys that verify the service's seals and statements."""
    published = await edge_of(request).statements.published()
    return ServiceKeys(
        keys=[
            ServiceKey(**key.jwk(), kid=kid, alg="ES256", use="sig")
            for kid, key in published.items()
        ]
    )


@routes.open(
    "GET",
    "/v1/schemas/{name}",
    "get_schema",
    scope="runs:read approvals:read agents:read tools:read",
)
async def get_schema(_call: Calling, name: str) -> dict[str, JsonValue]:
    """The JSON Schema of events, frames or decision payloads."""
    if name not in PUBLISHED:
        raise NotFound("schema")
    return published_schema(name)


@cache
def published_schema(name: str) -> dict[str, Any]:
    """The JSON Schema of that name. Made when it is asked for: a start has no time for it."""
    schema = PUBLISHED[name].model_json_schema()
    describe_members({PUBLISHED[name].__name__: schema, **schema.get("$defs", {})})
    return {"$schema": DIALECT, "$id": f"urn:turngate:schema:{name}", **schema}
