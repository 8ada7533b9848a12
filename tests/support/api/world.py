"""The application over ASGI on a real store, and people who talk to it."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import httpx
import orjson
from prometheus_client import CollectorRegistry

from app.api.app import build_app
from app.api.edge import Edge
from app.providers.directory import ProviderDirectory
from app.service.access.development import DEVELOPMENT_ISSUER, DevelopmentIssuer, TokenOrder
from app.service.access.revocations import Revocations, RevokedTokens
from app.service.access.tokens import Access, FixedKeys
from app.service.agents.binding import Binder
from app.service.agents.mcp_servers import McpServers
from app.service.agents.tool_listing import ToolListing
from app.service.agents.use_cases import Agents
from app.service.approvals.use_cases import Approvals
from app.service.artifacts.use_cases import Artifacts
from app.service.caller import SCOPES
from app.service.context.remembered import ConversationMemory
from app.service.grants.use_cases import Grants
from app.service.keys.approver_keys import Keys
from app.service.keys.passkeys import Passkeys, RelyingParty
from app.service.questions.use_cases import Questions
from app.service.runs.conversations import Conversations
from app.service.runs.use_cases import Runs
from app.service.skills.use_cases import Skills
from app.service.statements import Statements
from app.service.streams.event_log import EventLog
from app.service.streams.hold import HoldGate
from app.service.streams.subscriptions import Subscriptions
from app.service.streams.use_cases import StreamLimits, Streams
from app.service.streams.wakeups import Wakeups
from app.tools.builtin import builtin_tools
from app.tools.http import OutboundHttp
from app.tools.mcp.connections import McpConnections
from app.tools.registry import ToolRegistry
from app.tools.toolbox import Toolbox
from app.turn.clock import LoopClock
from tests.support.log.seals import SERVICE
from tests.support.stepped_clock import SteppedClock
from tests.trust.signer import Signer, compact

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from fastapi import FastAPI

    from app.service.ports.database import Database
    from app.store.open import Store

EVERYDAY = tuple(sorted(SCOPES - {"admin"}))
PARTY = RelyingParty("turngate.test", frozenset({"https://app.turngate.test"}))
ISSUER = DevelopmentIssuer.from_chance(bytes(range(40)))


@dataclass(slots=True)
class Person:
    """Somebody with a token."""

    world: ApiWorld
    tenant: str
    sub: str
    token: str

    async def ask(self, method: str, path: str, body: Any = None, **more: Any) -> httpx.Response:
        """One request. `body` is sent as JSON, or as it is if it is bytes; `more` are headers."""
        headers = {name.replace("_", "-"): value for name, value in more.items()}
        if body is not None:
            headers = {"Content-Type": "application/json"} | headers
        content = body if isinstance(body, bytes | None) else orjson.dumps(body)
        headers["Authorization"] = f"Bearer {self.token}"
        return await self.world.http.request(method, path, content=content, headers=headers)

    async def get(self, path: str, **more: Any) -> httpx.Response:
        return await self.ask("GET", path, **more)

    async def post(self, path: str, body: Any = None, **more: Any) -> httpx.Response:
        return await self.ask("POST", path, body, **more)

    async def put(self, path: str, body: Any = None, **more: Any) -> httpx.Response:
        return await self.ask("PUT", path, body, **more)

    async def patch(self, path: str, body: Any = None, **more: Any) -> httpx.Response:
        return await self.ask("PATCH", path, body, **more)

    async def delete(self, path: str, **more: Any) -> httpx.Response:
        return await self.ask("DELETE", path, **more)

    async def agent(self, name: str = "helper", **members: Any) -> str:
        """Save an agent of the script model; its name."""
        answer = await self.put(f"/v1/agents/{name}", {"model": "script"} | members)
        assert answer.status_code in (200, 201), answer.text
        return name

    async def run(self, agent: str = "helper", **members: Any) -> dict[str, Any]:
        """Create a run; its document."""
        answer = await self.post("/v1/runs", {"agent": agent, "input": "say hi"} | members)
        assert answer.status_code == 201, answer.text
        document: dict[str, Any] = answer.json()
        return document

    async def key(self, signer: Signer, *, endorsed_by: tuple[str, Signer] | None = None) -> str:
        """Register a key of one's own; its id."""
        body = self.enrolment(signer)
        if endorsed_by is not None:
            body["endorsement_jws"] = self.endorsement(signer, *endorsed_by)
        answer = await self.post("/v1/keys", body)
        assert answer.status_code == 201, answer.text
        ident: str = answer.json()["id"]
        return ident

    def enrolment(self, signer: Signer, **changed: Any) -> dict[str, Any]:
        """The body that registers a key, with its holder's proof."""
        statement = self.statement(signer, "turngate.key-proof", **changed)
        head = {"alg": "ES256", "kid": thumbprint(signer), "typ": "turngate-key-proof+jws"}
        proof = signer.jws(head, compact(statement))
        return {"public_jwk": signer.jwk, "label": "laptop", "proof_jws": proof}

    def endorsement(self, signer: Signer, kid: str, older: Signer) -> str:
        """The word of an older key for a new one."""
        statement = self.statement(signer, "turngate.key-endorsement")
        head = {"alg": "ES256", "kid": kid, "typ": "turngate-key-endorsement+jws"}
        return older.jws(head, compact(statement))

    def statement(self, signer: Signer, typ: str, /, **changed: Any) -> dict[str, Any]:
        """What is signed about a new key."""
        now = int(self.world.clock.now().timestamp())
        fields = {"typ": typ, "tenant": self.tenant, "sub": self.sub, "iat": now, "exp": now + 300}
        return {**fields, "thumbprint": thumbprint(signer), **changed}


@dataclass(slots=True)
class ApiWorld:
    """One application, the clock it reads, and the people of one tenant."""

    store: Store
    tenant: str
    clock: SteppedClock
    http: httpx.AsyncClient
    edge: Edge
    app: FastAPI

    def person(
        self,
        sub: str = "alice",
        *,
        scopes: tuple[str, ...] = EVERYDAY,
        roles: tuple[str, ...] = (),
        tenant: str | None = None,
    ) -> Person:
        """Somebody, of the test's own tenant unless another is named."""
        home = tenant or self.tenant
        order = TokenOrder(home, sub, scopes, roles)
        token = ISSUER.token(order, audience="turngate", clock=self.clock)
        return Person(self, home, sub, token)


def thumbprint(signer: Signer) -> str:
    """The RFC 7638 thumbprint of a signer's key."""
    return signer.public.thumbprint()


def problem(response: httpx.Response, status: int, code: str) -> dict[str, Any]:
    """The problem document of a response, which must be of that status and code."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    document: dict[str, Any] = response.json()
    assert document["code"] == code, document
    assert document["status"] == status
    assert document["instance"] == response.headers["x-request-id"]
    assert {"type", "title", "detail"} <= document.keys()
    assert "Traceback" not in response.text
    return document


def pointers(document: Mapping[str, Any]) -> list[str]:
    """Where the faults of a problem lie."""
    return [fault["pointer"] for fault in document["errors"]]


def edge_of(
    store: Store,
    clock: SteppedClock,
    *,
    open_runs: int = 1000,
    reach: McpConnections | None = None,
    database: Database | None = None,
) -> Edge:
    """Everything behind the edge, on a real store; nobody drives the runs.

    MCP servers are reached through `reach`, or not at all. `database` may stand before the store's.
    """
    database = database or store.database
    calls = reach or McpConnections(LoopClock(), commands={})
    servers = McpServers(database=database, clock=clock, reach=calls)
    providers = ProviderDirectory(clock)
    registry = ToolRegistry(builtin_tools(clock, OutboundHttp()))
    toolbox = Toolbox(registry, store=store, clock=clock, calls=calls)
    binder = Binder(toolbox=toolbox, providers=providers, servers=servers)
    wakeups = Wakeups(clock)
    wakeups.listen(store.signals)
    statements = Statements(SERVICE, store.service_keys)
    return Edge(
        database=database,
        clock=clock,
        access=Access(
            clock,
            issuers={DEVELOPMENT_ISSUER: FixedKeys(ISSUER.keys())},
            audience="turngate",
            revoked=RevokedTokens(store.revocations, clock),
        ),
        agents=Agents(clock, catalogue=toolbox, models=providers, recalls=store.recall is not None),
        approvals=Approvals(database=database, clock=clock, binder=binder, origins=PARTY.origins),
        conversations=Conversations(clock),
        questions=Questions(database=database, clock=clock, statements=statements),
        keys=Keys(clock, origins=PARTY.origins),
        passkeys=Passkeys(clock, statements, PARTY),
        grants=Grants(clock, statements, catalogue=toolbox, origins=PARTY.origins),
        revocations=Revocations(clock),
        mcp_servers=servers,
        statements=statements,
        runs=Runs(database=database, clock=clock, wakeups=wakeups, open_runs=open_runs),
        artifacts=Artifacts(clock, store.artifacts),
        memory=ConversationMemory(store),
        skills=Skills(clock),
        tools=ToolListing(toolbox),
        streams=Streams(
            database=database,
            subscriptions=Subscriptions(database),
            holds=HoldGate(clock),
            limits=StreamLimits(10, 5),
        ),
        event_log=EventLog(database=database, wakeups=wakeups),
        registry=CollectorRegistry(),
        allowed_origins=frozenset({"https://app.example"}),
    )


@asynccontextmanager
async def api_world(
    store: Store,
    *,
    open_runs: int = 1000,
    reach: McpConnections | None = None,
    database: Database | None = None,
) -> AsyncIterator[ApiWorld]:
    """The application for the length of the block, without a tenant."""
    clock = SteppedClock()
    edge = edge_of(store, clock, open_runs=open_runs, reach=reach, database=database)
    await edge.statements.publish(clock)
    app = build_app(edge)
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://turngate.test") as http:
        yield ApiWorld(store, "nobody", clock, http, edge, app)
