"""What the use cases and the worker are made of, in the order in which each needs the other."""

from __future__ import annotations

from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from app.main.access import open_access
from app.main.models import open_embedder, providers_of
from app.main.storage import Storage, bucket_of
from app.main.toolbox import open_connections, open_toolbox
from app.providers.summaries import Summarizers
from app.service.agents.binding import Binder
from app.service.agents.mcp_servers import McpServers
from app.service.clock import SystemClock
from app.service.runs.late_results import LateResults
from app.service.statements import Statements, service_key
from app.service.streams.hold import HoldGate
from app.service.streams.hold_sharing import HoldSharing
from app.service.streams.subscriptions import Subscriptions
from app.service.streams.wakeups import Wakeups
from app.store.keys.private_file import kept

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from app.providers.directory import ProviderDirectory
    from app.service.access.tokens import Access
    from app.service.clock import Clock
    from app.settings import Settings
    from app.store.open import Store
    from app.tools.toolbox import Toolbox


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """The parts of one process; `process` is its name."""

    settings: Settings
    clock: Clock
    process: str
    store: Store
    access: Access
    statements: Statements
    providers: ProviderDirectory
    summarizers: Summarizers
    toolbox: Toolbox
    servers: McpServers
    binder: Binder
    wakeups: Wakeups
    subscriptions: Subscriptions
    holds: HoldGate


@asynccontextmanager
async def open_parts(settings: Settings, *, migrate: bool) -> AsyncIterator[Parts]:
    """The parts until the block ends. Raises Misconfigured, StoreUnavailable.

    What is missing or misconfigured is told before anything is started or migrated.
    """
    clock = SystemClock()
    bucket = bucket_of(settings)
    pem = settings.signing_key
    text = None if pem is None else pem.get_secret_value()
    key = service_key(text, settings.data_dir, clock, kept=kept)
    async with AsyncExitStack() as stack:
        providers = await stack.enter_async_context(aclosing(providers_of(settings, clock)))
        summarizers = Summarizers(providers, model=settings.summary_model)
        storage = Storage(clock.mint("proc"), key, bucket, summarizers)
        embedder = await stack.enter_async_context(open_embedder(settings))
        opened = await stack.enter_async_context(storage.opened(settings, migrate=migrate))
        store = await opened.recalling(embedder)
        statements = Statements(key, store.service_keys)
        await statements.publish(clock)
        wakeups, holds = Wakeups(clock), HoldGate(clock)
        subscriptions = Subscriptions(store.database)
        late = LateResults(store.database, clock, wakeups)
        reach = await stack.enter_async_context(open_connections(settings, clock, late))
        toolbox = await stack.enter_async_context(
            open_toolbox(store, settings, embedder, clock=clock, calls=reach)
        )
        servers = McpServers(database=store.database, clock=clock, reach=reach)
        for listener in (wakeups, subscriptions, holds):
            listener.listen(store.signals)
        await stack.enter_async_context(HoldSharing(holds, store.holds, clock).running())
        yield Parts(
            settings=settings,
            clock=clock,
            process=storage.process,
            store=store,
            access=await stack.enter_async_context(open_access(store, settings, clock)),
            statements=statements,
            providers=providers,
            summarizers=summarizers,
            toolbox=toolbox,
            servers=servers,
            binder=Binder(toolbox=toolbox, providers=providers, servers=servers, memories=store),
            wakeups=wakeups,
            subscriptions=subscriptions,
            holds=holds,
        )
