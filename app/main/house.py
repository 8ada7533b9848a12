"""The house: parts, edge and worker, opened in this order and closed in the other.

What guards a run (tools, policies, models) is complete before the first recovered step is driven:
the worker starts last.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from app.api.app import build_app
from app.api.notices import counted_notices
from app.main.edge import edge_of
from app.main.parts import open_parts
from app.main.worker import at_work

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from fastapi import FastAPI

    from app.service.driving.supervisor import Supervisor
    from app.service.streams.use_cases import Streams
    from app.service.streams.wakeups import Wakeups
    from app.settings import Settings
    from app.store.open import Store


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
async def open_house(
    settings: Settings, *, worker: bool = True, migrate: bool = True
) -> AsyncIterator[House]:
    """The whole house until the block ends. Raises Misconfigured, StoreUnavailable."""
    async with AsyncExitStack() as stack:
        parts = await stack.enter_async_context(open_parts(settings, migrate=migrate))
        edge = edge_of(parts)
        stack.enter_context(counted_notices(edge.registry))
        driving = at_work(parts, edge)
        supervisor = await stack.enter_async_context(driving) if worker else None
        yield House(build_app(edge), parts.store, edge.streams, parts.wakeups, supervisor)
