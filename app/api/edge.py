"""What the edge is built from, and what a request gets of it.

`Edge` holds everything the routes call; `app.main.edge` puts it together. A `Call` is one
authenticated request; a reading one has a session, a writing one the transaction that its answer
commits with.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Final

from fastapi import Depends
from prometheus_client import CollectorRegistry
from starlette.requests import HTTPConnection, Request

from app.service.access.revocations import Revocations
from app.service.access.tokens import Access, Authenticated
from app.service.agents.mcp_servers import McpServers
from app.service.agents.tool_listing import ToolListing
from app.service.agents.use_cases import Agents
from app.service.artifacts.use_cases import Artifacts
from app.service.caller import Caller
from app.service.clock import Clock
from app.service.context.remembered import ConversationMemory
from app.service.grants.use_cases import Grants
from app.service.keys.approver_keys import Keys
from app.service.keys.passkeys import Passkeys
from app.service.ports.database import Database, Session, Transaction
from app.service.runs.conversations import Conversations
from app.service.skills.use_cases import Skills

if TYPE_CHECKING:
    from app.api.idempotency import Claim
    from app.service.access.rates import Rates
    from app.service.approvals.use_cases import Approvals
    from app.service.questions.use_cases import Questions
    from app.service.runs.use_cases import Runs
    from app.service.statements import Statements
    from app.service.streams.event_log import EventLog
    from app.service.streams.use_cases import Streams

CALL: Final = "turngate.call"
BODY_BYTES: Final = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Edge:
    """The parts that routes call. Without `rates` nobody is limited."""

    database: Database
    clock: Clock
    access: Access
    agents: Agents
    approvals: Approvals
    conversations: Conversations
    questions: Questions
    keys: Keys
    passkeys: Passkeys
    grants: Grants
    revocations: Revocations
    statements: Statements
    mcp_servers: McpServers
    runs: Runs
    artifacts: Artifacts
    memory: ConversationMemory
    skills: Skills
    tools: ToolListing
    streams: Streams
    event_log: EventLog
    registry: CollectorRegistry = field(default_factory=CollectorRegistry)
    rates: Rates | None = None
    allowed_origins: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Call:
    """An authenticated request whose scope was checked."""

    edge: Edge
    who: Authenticated
    claim: Claim | None

    @property
    def caller(self) -> Caller:
        """Who calls."""
        return self.who.caller


@dataclass(frozen=True, slots=True)
class ReadCall(Call):
    """A call with a session of the caller's tenant."""

    session: Session


@dataclass(frozen=True, slots=True)
class WriteCall(Call):
    """A call whose transaction commits when the route returns, and not when it raises."""

    tx: Transaction


def edge_of(connection: HTTPConnection) -> Edge:
    """The edge that the application was built with."""
    edge: Edge = connection.app.state.edge
    return edge


async def _call(request: Request) -> Any:
    return request.scope[CALL]


Calling = Annotated[Call, Depends(_call)]
Reading = Annotated[ReadCall, Depends(_call)]
Writing = Annotated[WriteCall, Depends(_call)]
