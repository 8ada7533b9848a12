"""`turngate worker`: a process that drives runs and serves nothing."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import uvloop

from app.cli.signals import heed
from app.main.house import open_house

if TYPE_CHECKING:
    from app.settings import Settings


def work(settings: Settings, *, migrate: bool) -> None:
    """Drive runs until a signal; then what is running gets its time to hand over.

    Raises StoreUnavailable.
    """
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_work(settings, migrate))


async def _work(settings: Settings, migrate: bool) -> None:
    asked = asyncio.Event()
    heed(lambda _: asked.set())
    async with open_house(settings, worker=True, migrate=migrate):
        await asked.wait()
