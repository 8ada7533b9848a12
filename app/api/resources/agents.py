"""Agents: put, read, list, delete, with entity tags for safe edits (service.md 3)."""

from __future__ import annotations

import re
from typing import Annotated, Final

from fastapi import Header, Response

from app.api.edge import Reading, Writing
from app.api.paging import Cursor, Limit, cut_page, is_time_key, page_of, time_key
from app.api.routes import Routes
from app.api.tags import ANY, UNCHANGED, IfNoneMatch, digests, not_modified, tag_of
from app.api.wire import Document, Time
from app.log.envelope import wire_time
from app.log.records import AgentRecord
from app.service.agents.spec import AGENT_NAME, AgentSpec
from app.service.agents.use_cases import Expected
from app.service.refusals import FieldFault, RequestInvalid

routes = Routes(tags=["agents"])

_NAME: Final = re.compile(AGENT_NAME)

IfMatch = Annotated[
    str | None, Header(description="The ETag of the agent that is to be changed, or *")
]


class Agent(AgentSpec):
    """An agent as saved."""

    name: str
    digest: str
    created_at: Time
    updated_at: Time


class AgentList(Document):
    """A page of agents, newest first."""

    items: list[Agent]
    next_cursor: str | None


@routes.write(
    "PUT",
    "/v1/agents/{name}",
    "put_agent",
    scope="agents:write",
    responses={201: {"model": Agent, "description": "There was no agent of this name before"}},
)
async def put_agent(
    call: Writing,
    name: str,
    body: AgentSpec,
    response: Response,
    if_match: IfMatch = None,
) -> Agent:
    """Create an agent, or replace it whole."""
    if _NAME.fullmatch(name) is None:
        fault = FieldFault("/path/name", f"expected {AGENT_NAME}")
        raise RequestInvalid("an agent cannot have this name", faults=(fault,))
    saved = await call.edge.agents.put(
        call.tx, call.caller, name=name, spec=body, expected=_expected(if_match)
    )
    response.status_code = 201 if saved.created else 200
    return _tagged(saved.agent, response)


@routes.read("/v1/agents", "list_agents", scope="agents:read")
async def list_agents(call: Reading, *, limit: Limit = 50, cursor: Cursor = None) -> AgentList:
    """The tenant's agents, newest first."""
    page = page_of(limit, cursor, is_sound=is_time_key)
    found = await call.edge.agents.page(call.session, page)
    shown, more = cut_page(found, limit, _agent_key)
    return AgentList(items=[_agent_document(agent) for agent in shown], next_cursor=more)


@routes.read(
    "/v1/agents/{name}",
    "get_agent",
    scope="agents:read",
    response_model=Agent,
    responses=UNCHANGED,
)
async def get_agent(
    call: Reading, name: str, response: Response, if_none_match: IfNoneMatch = None
) -> Agent | Response:
    """One agent."""
    agent = await call.edge.agents.read(call.session, name)
    return not_modified(if_none_match, agent.digest) or _tagged(agent, response)


@routes.write("DELETE", "/v1/agents/{name}", "delete_agent", scope="agents:write", status_code=204)
async def delete_agent(call: Writing, name: str, if_match: IfMatch = None) -> None:
    """Delete an agent; its open runs go on."""
    await call.edge.agents.delete(call.tx, call.caller, name=name, expected=_expected(if_match))


def _agent_document(agent: AgentRecord) -> Agent:
    """How an agent is shown; one saved by an older release gets the newer defaults."""
    return Agent.model_validate(
        {
            **agent.spec,
            "name": agent.name,
            "digest": agent.digest,
            "created_at": wire_time(agent.created_at),
            "updated_at": wire_time(agent.updated_at),
        }
    )


def _agent_key(agent: AgentRecord) -> str:
    return time_key(agent.created_at, agent.name)


def _tagged(agent: AgentRecord, response: Response) -> Agent:
    response.headers["ETag"] = tag_of(agent.digest)
    return _agent_document(agent)


def _expected(if_match: str | None) -> Expected | None:
    """What If-Match demands. Raises RequestInvalid."""
    if if_match is None:
        return None
    if if_match.strip() == ANY:
        return Expected(any_version=True)
    expected = digests(if_match)
    if not expected:
        fault = FieldFault("/header/If-Match", "expected entity tags in quotes, or *")
        raise RequestInvalid("If-Match names no entity tag", faults=(fault,))
    return Expected(expected)
