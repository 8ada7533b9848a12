"""The application: layers, routes, problems, and its description."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from fastapi import FastAPI, Response

from app.api import (
    agent_routes,
    approval_routes,
    artifact_routes,
    conversation_routes,
    event_routes,
    grant_routes,
    key_routes,
    mcp_routes,
    memory_routes,
    passkey_routes,
    question_routes,
    revocation_routes,
    run_routes,
    service_routes,
    skill_routes,
    tool_routes,
)
from app.api.cors import Cors
from app.api.description import openapi_text
from app.api.door import Door
from app.api.problems import install_problems
from app.api.socket import STREAM_ROUTES

if TYPE_CHECKING:
    from starlette.routing import BaseRoute

    from app.api.edge import Edge

# The busiest first: a request is held against one route after the other.
_ROUTERS = (
    run_routes.routes,
    event_routes.routes,
    approval_routes.routes,
    question_routes.routes,
    conversation_routes.routes,
    artifact_routes.routes,
    memory_routes.routes,
    agent_routes.routes,
    key_routes.routes,
    passkey_routes.routes,
    grant_routes.routes,
    revocation_routes.routes,
    tool_routes.routes,
    mcp_routes.routes,
    skill_routes.routes,
    service_routes.routes,
    service_routes.open_routes,
)


def build_app(edge: Edge) -> FastAPI:
    """The application around `edge`."""
    app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None, redirect_slashes=False)
    app.state.edge = edge
    app.router.routes.extend([*STREAM_ROUTES, *_routes()])
    install_problems(app)
    app.add_middleware(Cors, origins=edge.allowed_origins)
    app.add_middleware(Door, clock=edge.clock, registry=edge.registry)
    app.add_api_route("/openapi.json", _get_description, include_in_schema=False)
    return app


@cache
def openapi_document() -> bytes:
    """The description of the API, as it is served and committed.

    It is made when it is first asked for: that takes longer than the rest of a start.
    """
    return openapi_text(_routes())


async def _get_description() -> Response:
    return Response(openapi_document(), media_type="application/json")


def _routes() -> list[BaseRoute]:
    # Not include_router: it would wrap every route once more, on the way of every request.
    return [route for router in _ROUTERS for route in router.routes]
