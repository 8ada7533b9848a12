"""A worker beside the application: what a client asks for over HTTP is driven when a test says so.

drives = ApiDriver.of(world, roots=[folder])
run = await drives.until_idle(alice, await alice.run(agent, input=program))
await drives.decide(alice, approval_id, "approve", sandbox_mode="relaxed")
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from app.providers.directory import ProviderDirectory
from app.providers.summaries import Summarizers
from app.service.agents.binding import Binder
from app.service.context.compaction import Compaction
from app.service.driving.driver import Driver, DriverSettings
from app.service.driving.loading import Loader
from app.service.statements import Statements
from app.tools.builtin import NO_SHELL, builtin_tools
from app.tools.http import OutboundHttp
from app.tools.registry import ToolRegistry
from app.tools.toolbox import Toolbox
from tests.support.clock import PlayedClock
from tests.support.log.seals import SERVICE
from tests.support.service.house import Unheld
from tests.trust.signer import Signer

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from app.service.ports.providers import Providers
    from app.tools.sandbox.shell import ShellRunner
    from tests.support.api.world import ApiWorld, Person

KEY = Signer.of(7)


@dataclass(frozen=True, slots=True)
class ApiDriver:
    """Drives the runs of an application on its store, with the built-in tools."""

    driver: Driver

    @staticmethod
    def of(
        world: ApiWorld,
        *,
        roots: Sequence[Path] = (),
        providers: Providers | None = None,
        shell: ShellRunner = NO_SHELL,
    ) -> ApiDriver:
        """A worker with the folders that a relaxed sandbox opens, with models and a shell."""
        clock = PlayedClock()
        toolbox = Toolbox(
            ToolRegistry(builtin_tools(clock, OutboundHttp(), shell=shell)),
            store=world.store,
            clock=clock,
            roots=roots,
        )
        models = providers or ProviderDirectory(clock)
        driver = Driver(
            database=world.store.database,
            leases=world.store.leases,
            loader=Loader(
                world.store.database,
                Binder(toolbox=toolbox, providers=models),
                Statements(SERVICE, world.store.service_keys),
                Compaction(world.store.database, Summarizers(models)),
            ),
            clock=clock,
            pace=Unheld(),
            settings=DriverSettings("api-driver", 60.0),
        )
        return ApiDriver(driver)

    async def until_idle(self, person: Person, run: dict[str, Any]) -> dict[str, Any]:
        """Drive the run's conversation until nothing in it is ready; the run as it is then."""
        while (lease := await self.driver.claim(run["conversation_id"])) is not None:
            await self.driver.drive(lease)
        document: dict[str, Any] = (await person.get(f"/v1/runs/{run['id']}")).json()
        return document


async def data_of(person: Person, run: dict[str, Any], event_type: str) -> list[dict[str, Any]]:
    """The data of the run's events of one type."""
    items = (await person.get(f"/v1/runs/{run['id']}/events?limit=1000")).json()["items"]
    return [event["data"] for event in items if event["type"] == event_type]


async def decide(
    person: Person, key_id: str, approval_id: str, verdict: str, *, key: Signer = KEY, **draft: Any
) -> dict[str, Any]:
    """Decide as a client does, with `key` registered as `key_id`; the approval after it."""
    path = f"/v1/approvals/{approval_id}"
    payload = await person.post(f"{path}/payload", {"decision": verdict} | draft)
    assert payload.status_code == 200, payload.text
    head = {"alg": "ES256", "kid": key_id, "typ": "turngate-decision+jws"}
    jws = key.jws(head, payload.json()["canonical"].encode())
    answer = await person.post(f"{path}/{verdict}", {"decision_jws": jws})
    assert answer.status_code == 200, answer.text
    approval: dict[str, Any] = answer.json()["approval"]
    return approval
