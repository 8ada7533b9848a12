"""The use cases, as the routes call them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.api.edge import Edge
from app.service.access.rates import Rates
from app.service.access.revocations import Revocations
from app.service.agents.tool_listing import ToolListing
from app.service.agents.use_cases import Agents
from app.service.approvals.use_cases import Approvals
from app.service.artifacts.use_cases import Artifacts
from app.service.context.remembered import ConversationMemory
from app.service.grants.use_cases import Grants
from app.service.keys.approver_keys import Keys
from app.service.keys.passkeys import Passkeys, RelyingParty
from app.service.questions.use_cases import Questions
from app.service.runs.conversations import Conversations
from app.service.runs.use_cases import Runs
from app.service.skills.use_cases import Skills
from app.service.streams.event_log import EventLog
from app.service.streams.use_cases import StreamLimits, Streams

if TYPE_CHECKING:
    from app.main.parts import Parts


def edge_of(parts: Parts) -> Edge:
    """Every use case over these parts."""
    settings, clock, store = parts.settings, parts.clock, parts.store
    database, statements, toolbox = store.database, parts.statements, parts.toolbox
    origins = frozenset(settings.allowed_origins)
    return Edge(
        database=database,
        clock=clock,
        access=parts.access,
        agents=_agents(parts),
        approvals=Approvals(database=database, clock=clock, binder=parts.binder, origins=origins),
        conversations=Conversations(clock),
        questions=Questions(database=database, clock=clock, statements=statements),
        keys=Keys(clock, origins=origins),
        passkeys=Passkeys(clock, statements, RelyingParty(settings.rp_id, origins)),
        grants=Grants(clock, statements, catalogue=toolbox, origins=origins),
        revocations=Revocations(clock),
        statements=statements,
        mcp_servers=parts.servers,
        runs=_runs(parts),
        artifacts=Artifacts(clock, store.artifacts, max_bytes=settings.artifact_max_bytes),
        memory=ConversationMemory(store),
        skills=Skills(clock),
        tools=ToolListing(toolbox),
        streams=_streams(parts),
        event_log=EventLog(database=database, wakeups=parts.wakeups),
        rates=Rates(clock, per_minute=limit) if (limit := settings.rate_per_minute) else None,
        allowed_origins=origins,
    )


def _agents(parts: Parts) -> Agents:
    recalls = parts.store.recall is not None
    return Agents(parts.clock, catalogue=parts.toolbox, models=parts.providers, recalls=recalls)


def _runs(parts: Parts) -> Runs:
    database, most = parts.store.database, parts.settings.open_runs
    return Runs(database=database, clock=parts.clock, wakeups=parts.wakeups, open_runs=most)


def _streams(parts: Parts) -> Streams:
    settings = parts.settings
    return Streams(
        database=parts.store.database,
        subscriptions=parts.subscriptions,
        holds=parts.holds,
        limits=StreamLimits(settings.sockets, settings.sockets_per_principal),
    )
