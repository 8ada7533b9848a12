"""A worker process that dies where it is told to.

    python -m tests.support.service.crash_worker DSN HOST

It reads jobs from its standard input, one JSON object a line, and forks for each: the fork opens
the store, drives the job's conversation with the built-in tools until nothing in it is ready, and
ends at once, without tidying up, at the append that the job names. The answer to a job is the
fork's exit status: 0 when it came to its end, 9 when it died. Nothing of this is known to `app`.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

from app.providers.directory import ProviderDirectory
from app.providers.summaries import Summarizers
from app.service.agents.binding import Binder
from app.service.clock import SystemClock
from app.service.context.compaction import Compaction
from app.service.driving.driver import Driver, DriverSettings
from app.service.driving.loading import Loader
from app.service.statements import Statements
from app.store.open import Store
from app.tools.builtin import builtin_tools
from app.tools.http import OutboundHttp
from app.tools.registry import ToolRegistry
from app.tools.toolbox import Toolbox
from tests.support.log.killed import DeadlyLeases
from tests.support.log.seals import SEAL, SERVICE
from tests.support.service.house import Unheld

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from app.service.ports.leases import Leases

DIED: Final = 9


@asynccontextmanager
async def driver_on(store: Store, leases: Leases, *, host: str) -> AsyncIterator[Driver]:
    """A driver with the built-in tools, which may reach the host, and the script model."""
    clock, http = SystemClock(), OutboundHttp((host,))
    registry = ToolRegistry(builtin_tools(clock, http))
    toolbox = Toolbox(registry, store=store, clock=clock)
    providers = ProviderDirectory(clock)
    try:
        yield Driver(
            database=store.database,
            leases=leases,
            loader=Loader(
                store.database,
                Binder(toolbox=toolbox, providers=providers),
                Statements(SERVICE, store.service_keys),
                Compaction(store.database, Summarizers(providers)),
            ),
            clock=clock,
            pace=Unheld(),
            settings=DriverSettings("crash-worker", 60.0),
        )
    finally:
        await http.aclose()


async def work(dsn: str, host: str, job: dict[str, Any]) -> None:
    """Drive the job's conversation until nothing is ready, or until the chosen append."""
    async with Store.open(dsn, seal=SEAL, process=SystemClock().mint("proc")) as store:
        leases = store.leases if job.get("event") is None else _deadly(store, job)
        async with driver_on(store, leases, host=host) as driver:
            while (lease := await driver.claim(job["conversation"])) is not None:
                await driver.drive(lease)


def _deadly(store: Store, job: dict[str, Any]) -> DeadlyLeases:
    return DeadlyLeases(store.leases, job["event"], job["moment"], job["nth"], die=_die)


async def _die() -> None:
    os._exit(DIED)


def main() -> None:
    """Serve jobs until the input ends."""
    _, dsn, host = sys.argv
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            status = 1
            with suppress(BaseException):
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
                asyncio.run(work(dsn, host, json.loads(line)))
                status = 0
            os._exit(status)
        _, status = os.waitpid(child, 0)
        sys.stdout.write(f"{os.waitstatus_to_exitcode(status)}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
