"""The composition root: which adapter fulfils which port. No logic.

`open_house` puts everything together and takes it apart again. What guards a run (tools, policies,
models) is complete before the first recovered step is driven: the supervisor starts last.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from prometheus_client import Counter

from app.api.app import build_app
from app.api.edge import Edge
from app.api.notices import counted_notices
from app.providers.directory import ProviderDirectory
from app.providers.embedding import ContractEmbedder
from app.providers.embedding_endpoint import EmbeddingEndpoint, EndpointVectors
from app.providers.endpoint import Endpoint
from app.providers.key_sets import read_key_set
from app.providers.summaries import Summarizers
from app.providers.wordllama import WordLlamaVectors
from app.runctx.skill_meaning import SkillMeanings
from app.service.access.development import DEVELOPMENT_ISSUER, development_issuer
from app.service.access.rates import Rates
from app.service.access.revocations import Revocations, RevokedTokens
from app.service.access.tokens import Access, FetchedKeys, FixedKeys
from app.service.agents.binding import Binder
from app.service.agents.mcp_servers import McpServers
from app.service.agents.tool_listing import ToolListing
from app.service.agents.use_cases import Agents
from app.service.approvals.use_cases import Approvals
from app.service.clock import SystemClock
from app.service.context.artifacts import Artifacts
from app.service.context.compaction import Compaction
from app.service.context.remembered import ConversationMemory
from app.service.context.skills import Skills
from app.service.driving.driver import Driver, DriverSettings
from app.service.driving.expiry import Expiry
from app.service.driving.loading import Loader
from app.service.driving.supervisor import Supervisor
from app.service.grants.use_cases import Grants
from app.service.keys.approver_keys import Keys
from app.service.keys.passkeys import Passkeys, RelyingParty
from app.service.questions.use_cases import Questions
from app.service.runs.conversations import Conversations
from app.service.runs.late_results import LateResults
from app.service.runs.use_cases import Runs
from app.service.statements import Statements, sealer, service_key
from app.service.streams.event_log import EventLog
from app.service.streams.hold import HoldGate
from app.service.streams.hold_sharing import HoldSharing
from app.service.streams.subscriptions import Subscriptions
from app.service.streams.use_cases import StreamLimits, Streams
from app.service.streams.wakeups import Wakeups
from app.settings import Environment, Settings
from app.store.bucket import BucketPlace
from app.store.migrations import migrate as migrate_tables
from app.store.open import Store, open_bucket
from app.store.private_file import kept
from app.store.whereabouts import running_database
from app.tools.bubblewrap import find_shell
from app.tools.builtin import builtin_tools
from app.tools.http import OutboundHttp
from app.tools.mcp.connections import McpConnections
from app.tools.registry import ToolRegistry
from app.tools.toolbox import Toolbox

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from fastapi import FastAPI
    from pydantic import SecretStr

    from app.service.access.tokens import KeyRing
    from app.service.clock import Clock
    from app.service.driving.recorder import Pace
    from app.service.ports.database import Database
    from app.store.bucket import Bucket
    from app.trust.keys import SigningKey


@dataclass(frozen=True, slots=True)
class House:
    """A running house; `app` is its edge as an ASGI application."""

    app: FastAPI
    store: Store
    streams: Streams
    wakeups: Wakeups
    supervisor: Supervisor | None

    async def drain(self) -> None:
        """End every stream and wait, and hand over every turn; returns when that is done."""
        self.wakeups.close()
        async with asyncio.TaskGroup() as going:
            going.create_task(self.streams.drain())
            if self.supervisor is not None:
                going.create_task(self.supervisor.drain())


@asynccontextmanager
async def open_database(settings: Settings, *, migrate: bool) -> AsyncIterator[str]:
    """The DSN of the database: the one of the settings, or the embedded one, started."""
    async with running_database(settings.database_url, data_dir=settings.data_dir) as dsn:
        if migrate:
            await migrate_tables(settings.database_owner_url or settings.database_direct_url or dsn)
        yield dsn


@asynccontextmanager
async def _open_store(
    settings: Settings, process: str, *, key: SigningKey, summarizers: Summarizers, migrate: bool
) -> AsyncIterator[Store]:
    async with (
        open_database(settings, migrate=migrate) as dsn,
        Store.open(
            dsn,
            process=process,
            seal=sealer(key),
            direct=settings.database_direct_url,
            summarizer_of=summarizers.of,
            bucket=_bucket(settings),
        ) as store,
    ):
        yield store


@asynccontextmanager
async def open_house(
    settings: Settings, *, worker: bool = True, migrate: bool = True
) -> AsyncIterator[House]:
    """The whole house until the block ends. Raises Misconfigured, StoreUnavailable."""
    clock = SystemClock()
    key = service_key(_secret(settings.signing_key), settings.data_dir, clock, kept=kept)
    async with AsyncExitStack() as stack:
        process = clock.mint("proc")
        providers = _providers(settings, clock)
        stack.push_async_callback(providers.aclose)
        summarizers = Summarizers(providers, model=settings.summary_model)
        opening = _open_store(settings, process, key=key, summarizers=summarizers, migrate=migrate)
        embedder = await stack.enter_async_context(open_embedder(settings))
        store = await (await stack.enter_async_context(opening)).recalling(embedder)
        database = store.database
        statements = await _statements(key, store, clock)
        http = await stack.enter_async_context(aclosing(OutboundHttp(settings.http_allow_hosts)))
        wakeups, subscriptions, holds = Wakeups(clock), Subscriptions(database), HoldGate(clock)
        late = LateResults(database, clock, wakeups)
        reach = await stack.enter_async_context(_connections(settings, clock, late))
        toolbox = await _toolbox(store, settings, embedder, clock=clock, http=http, calls=reach)
        servers = McpServers(database=database, clock=clock, reach=reach)
        for listener in (wakeups, subscriptions, holds):
            listener.listen(store.signals)
        await stack.enter_async_context(HoldSharing(holds, store.holds, clock).running())
        binder = Binder(toolbox=toolbox, providers=providers, servers=servers, memories=store)
        origins = frozenset(settings.allowed_origins)
        runs = Runs(database=database, clock=clock, wakeups=wakeups, open_runs=settings.open_runs)
        edge = Edge(
            database=database,
            clock=clock,
            access=await stack.enter_async_context(_access(store, settings, clock)),
            agents=_agents(store, toolbox, providers, clock),
            approvals=Approvals(database=database, clock=clock, binder=binder, origins=origins),
            conversations=Conversations(clock),
            questions=Questions(database=database, clock=clock, statements=statements),
            keys=Keys(clock, origins=origins),
            passkeys=Passkeys(clock, statements, RelyingParty(settings.rp_id, origins)),
            grants=Grants(clock, statements, catalogue=toolbox, origins=origins),
            revocations=Revocations(clock),
            statements=statements,
            mcp_servers=servers,
            runs=runs,
            artifacts=Artifacts(clock, max_bytes=settings.artifact_max_bytes, shelf=store.shelf),
            memory=ConversationMemory(store),
            skills=Skills(clock),
            tools=ToolListing(toolbox),
            streams=_streams(database, settings, subscriptions=subscriptions, holds=holds),
            event_log=EventLog(database=database, wakeups=wakeups),
            rates=Rates(clock, per_minute=limit) if (limit := settings.rate_per_minute) else None,
            allowed_origins=origins,
        )
        stack.enter_context(counted_notices(edge.registry))
        supervisor = None
        if worker:
            loader = Loader(database, binder, statements, Compaction(database, summarizers))
            driver = _driver(store, settings, clock, loader=loader, pace=holds, name=process)
            supervisor = _supervisor(store, settings, driver=driver, edge=edge)
            await stack.enter_async_context(_supervised(supervisor))
        yield House(build_app(edge), store, edge.streams, wakeups, supervisor)


@asynccontextmanager
async def _access(store: Store, settings: Settings, clock: Clock) -> AsyncIterator[Access]:
    """Who gets in; what was revoked is known from the first request on."""
    revoked = RevokedTokens(store.revocations, clock)
    issuers, audience = _issuers(settings, clock), settings.jwt_audience
    async with revoked.running():
        yield Access(clock, issuers=issuers, audience=audience, revoked=revoked)


def _bucket(settings: Settings) -> Bucket | None:
    if settings.artifacts_bucket is None:
        return None
    keys = settings.s3_access_key_id, _secret(settings.s3_secret_access_key)
    where = settings.artifacts_bucket, settings.s3_endpoint, settings.s3_region
    return open_bucket(BucketPlace(*where, *keys))


def _agents(store: Store, toolbox: Toolbox, providers: ProviderDirectory, clock: Clock) -> Agents:
    return Agents(clock, catalogue=toolbox, models=providers, recalls=store.recall is not None)


def _streams(
    database: Database, settings: Settings, *, subscriptions: Subscriptions, holds: HoldGate
) -> Streams:
    limits = StreamLimits(settings.sockets, settings.sockets_per_principal)
    return Streams(database=database, subscriptions=subscriptions, holds=holds, limits=limits)


async def _statements(key: SigningKey, store: Store, clock: Clock) -> Statements:
    statements = Statements(key, store.service_keys)
    await statements.publish(clock)
    return statements


@asynccontextmanager
async def _connections(
    settings: Settings, clock: Clock, late: LateResults
) -> AsyncIterator[McpConnections]:
    commands, hosts = settings.mcp_commands, settings.http_allow_hosts
    reach = McpConnections(clock, commands=commands, allow_hosts=hosts)
    reach.on_late(late.heard)
    async with late.running(), reach.running():
        yield reach


async def _toolbox(
    store: Store,
    settings: Settings,
    embedder: ContractEmbedder,
    *,
    clock: Clock,
    http: OutboundHttp,
    calls: McpConnections,
) -> Toolbox:
    return Toolbox(
        ToolRegistry(builtin_tools(clock, http, shell=await find_shell())),
        store=store,
        clock=clock,
        roots=settings.sandbox_roots,
        calls=calls,
        meanings=SkillMeanings(embedder),
    )


@asynccontextmanager
async def open_embedder(settings: Settings) -> AsyncIterator[ContractEmbedder]:
    """The operator's endpoint, or the vectors that come with the service."""
    if settings.embeddings_url is None or settings.embeddings_model is None:
        yield ContractEmbedder(WordLlamaVectors())
        return
    endpoint = EmbeddingEndpoint(
        settings.embeddings_url,
        settings.embeddings_model,
        _secret(settings.embeddings_api_key),
        settings.embeddings_dimensions,
    )
    async with aclosing(EndpointVectors(endpoint)) as vectors:
        yield ContractEmbedder(vectors)


def _driver(
    store: Store, settings: Settings, clock: Clock, *, loader: Loader, pace: Pace, name: str
) -> Driver:
    driver = Driver(
        database=store.database,
        leases=store.leases,
        loader=loader,
        clock=clock,
        pace=pace,
        settings=DriverSettings(name, settings.lease_ttl_s, settings.max_steps),
    )
    driver.keeper.listen(store.signals)
    return driver


def _supervisor(store: Store, settings: Settings, *, driver: Driver, edge: Edge) -> Supervisor:
    queue, clock = store.queue, edge.clock
    expiry = Expiry(queue=queue, approvals=edge.approvals, questions=edge.questions, clock=clock)
    supervisor = Supervisor(
        queue=queue,
        driver=driver,
        expiry=expiry,
        clock=clock,
        concurrency=settings.worker_concurrency,
        drain_s=settings.drain_s,
    )
    supervisor.forget_memory_after(settings.memory_retention_days)
    # Raised by a dead worker, and by whatever else keeps a run from those who were told of it.
    swept = Counter(
        "turngate_runs_swept", "Runs that no wake-up brought to a worker", registry=edge.registry
    )
    supervisor.on_swept(swept.inc)
    return supervisor


@asynccontextmanager
async def _supervised(supervisor: Supervisor) -> AsyncIterator[None]:
    async with asyncio.TaskGroup() as owner:
        owner.create_task(supervisor.run())
        try:
            yield
        finally:
            supervisor.stop()


def _issuers(settings: Settings, clock: Clock) -> dict[str, KeyRing]:
    """The issuers whose tokens are taken; that of development never in production."""
    issuers: dict[str, KeyRing] = {}
    if settings.jwt_issuer is not None and settings.jwt_jwks is not None:
        issuers[settings.jwt_issuer] = FetchedKeys(partial(read_key_set, settings.jwt_jwks), clock)
    if settings.env is not Environment.PRODUCTION:
        local = development_issuer(settings.data_dir, clock, kept=kept)
        issuers[DEVELOPMENT_ISSUER] = FixedKeys(local.keys())
    return issuers


def _providers(settings: Settings, clock: Clock) -> ProviderDirectory:
    vendors = {
        "openai": settings.openai_api_key,
        "anthropic": settings.anthropic_api_key,
        "google": settings.google_api_key,
    }
    return ProviderDirectory(
        clock,
        vendors={name: Endpoint(_secret(key)) for name, key in vendors.items() if key is not None},
        compatible={
            name: Endpoint(_secret(server.api_key), server.base_url, server.context_window)
            for name, server in settings.compatible.items()
        },
    )


def _secret(value: SecretStr | None) -> str | None:
    return None if value is None else value.get_secret_value()
