"""The application: layers, routes, problems, and its description.

The description is made from the routes and committed beside this file, and the file is what is
served: to make it takes more than a second, in which nothing else would be answered.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

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

_DESCRIPTION: Final = Path(__file__).with_name("openapi.json")
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
    """The description of the API as the routes have it; a test holds the committed one against it.

    It takes more than a second.
    """
    return openapi_text(_routes())


@cache
def _committed() -> bytes:
    return _DESCRIPTION.read_bytes()


async def _get_description() -> Response:
    return Response(_committed(), media_type="application/json")


def _routes() -> list[BaseRoute]:
    # Not include_router: it would wrap every route once more, on the way of every request.
    return [route for router in _ROUTERS for route in router.routes]
