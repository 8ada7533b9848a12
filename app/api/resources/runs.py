"""Runs: create (and wait, where the client prefers to), read, list, cancel."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Final, Literal

from fastapi import Query, Response
from starlette.requests import Request
from typing_extensions import override

from app.api.bodies import JSON_TYPE
from app.api.edge import Call, Reading, Writing
from app.api.paging import Cursor, Limit, TextFilter, cut_page, page_of
from app.api.resources.run_documents import CreateRun, Run, RunList, run_json, runs_json
from app.api.routes import Endpoint, Routes, WriteRoute
from app.service.refusals import FieldFault, RequestInvalid

MAX_WAIT_S: Final = 60
_WAIT: Final = re.compile(r"(?:^|[,;])\s*wait\s*=\s*([^,;\s]*)", re.IGNORECASE)

routes = Routes(tags=["runs"])


class CreateRunRoute(WriteRoute):
    """Once the run is committed, waits for it as long as `Prefer: wait=N` asks."""

    headers = ("Prefer",)

    @override
    async def serve(self, request: Request, call: Call, endpoint: Endpoint) -> Response:
        """The run as created, or as it is after the wait; a replay waits as well."""
        seconds = _preferred_wait(request)
        response = await super().serve(request, call, endpoint)
        if seconds is None:
            return response
        run_id = response.headers["location"].rpartition("/")[2]
        run = await call.edge.runs.settled(call.caller, run_id, seconds)
        headers = {
            name: value
            for name, value in response.headers.items()
            if name in ("location", "idempotent-replayed")
        }
        return Response(
            run_json(run),
            status_code=response.status_code,
            media_type="application/json",
            headers={**headers, "Preference-Applied": f"wait={seconds}"},
        )


@routes.write(
    "POST",
    "/v1/runs",
    "create_run",
    scope="runs:write",
    status_code=201,
    kind=CreateRunRoute,
    response_model=Run,
)
async def create_run(call: Writing, body: CreateRun) -> Response:
    """Create a run and enqueue it."""
    run = await call.edge.runs.create(call.tx, call.caller, body.request())
    return _json(run_json(run), status_code=201, headers={"Location": f"/v1/runs/{run.id}"})


RunStatusFilter = Annotated[
    Literal["queued", "running", "paused", "completed", "failed", "cancelled"] | None, Query()
]


@routes.read("/v1/runs", "list_runs", scope="runs:read", response_model=RunList)
async def list_runs(
    call: Reading,
    *,
    status: RunStatusFilter = None,
    agent: TextFilter = None,
    conversation_id: TextFilter = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> Response:
    """Runs in reach, newest first."""
    asked = {"status": status, "agent": agent, "conversation_id": conversation_id}
    filters = {name: value for name, value in asked.items() if value is not None}
    page = page_of(limit, cursor)
    runs = await call.edge.runs.page(call.session, call.caller, page, filters)
    shown, more = cut_page(runs, limit, lambda run: run.id)
    return _json(runs_json(shown, more))


@routes.read("/v1/runs/{run_id}", "get_run", scope="runs:read", response_model=Run)
async def get_run(call: Reading, run_id: str) -> Response:
    """One run."""
    return _json(run_json(await call.edge.runs.read(call.session, call.caller, run_id)))


@routes.write(
    "POST",
    "/v1/runs/{run_id}/cancel",
    "cancel_run",
    scope="runs:write",
    status_code=202,
    response_model=Run,
)
async def cancel_run(call: Writing, run_id: str) -> Response:
    """End a run; what it left open is settled."""
    run = await call.edge.runs.cancel(call.tx, call.caller, run_id)
    return _json(run_json(run), status_code=202)


def _json(
    text: bytes, *, status_code: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    return Response(text, status_code=status_code, media_type=JSON_TYPE, headers=headers)


def _preferred_wait(request: Request) -> int | None:
    """Seconds of `Prefer: wait=N`. Raises RequestInvalid unless N is 1 to 60."""
    found = _WAIT.search(",".join(request.headers.getlist("prefer")))
    if found is None:
        return None
    asked = found[1].strip('"')
    if not asked.isascii() or not asked.isdecimal() or not 1 <= int(asked[:9]) <= MAX_WAIT_S:
        detail = f"expected wait=1 to wait={MAX_WAIT_S}"
        raise RequestInvalid(detail, faults=(FieldFault("/header/Prefer", detail),))
    return int(asked)
