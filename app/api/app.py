"""The application: layers, routes, problems, and its description.

The description is made from the routes and committed beside this file, and the file is what is
served: to make it takes more than a second, in which nothing else would be answered.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from fastapi import FastAPI, Response

from app.api.cors import Cors
from app.api.description import openapi_text
from app.api.door import Door
from app.api.problems import install_problems
from app.api.resources import (
    agents,
    approvals,
    artifacts,
    conversations,
    events,
    grants,
    keys,
    mcp_servers,
    memory,
    passkeys,
    questions,
    revocations,
    runs,
    service,
    skills,
    tools,
)
from app.api.stream.socket import STREAM_ROUTES

if TYPE_CHECKING:
    from starlette.routing import BaseRoute

    from app.api.edge import Edge

_DESCRIPTION: Final = Path(__file__).with_name("openapi.json")
# The busiest first: a request is held against one route after the other.
_ROUTERS = (
    runs.routes,
    events.routes,
    approvals.routes,
    questions.routes,
    conversations.routes,
    artifacts.routes,
    memory.routes,
    agents.routes,
    keys.routes,
    passkeys.routes,
    grants.routes,
    revocations.routes,
    tools.routes,
    mcp_servers.routes,
    skills.routes,
    service.routes,
    service.open_routes,
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
