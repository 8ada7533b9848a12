"""Agents: saved whole, edited safely, deleted without touching their open runs (service.md 3)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from app.log.audit import AgentDeleted, AgentSaved
from app.log.envelope import NewEvent
from app.log.records import AgentRecord
from app.service.agents.check import Surroundings, faults_of, lowered_guards
from app.service.agents.spec import digest_of
from app.service.refusals import AgentChanged, AgentInvalid, NotFound, ScopeMissing

if TYPE_CHECKING:
    from app.log.payload import Payload
    from app.log.queries import Page
    from app.service.agents.check import ModelCatalogue
    from app.service.agents.spec import AgentSpec
    from app.service.agents.tool_listing import ToolCatalogue
    from app.service.caller import Caller
    from app.service.clock import Clock
    from app.service.ports.database import Session, Transaction


@dataclass(frozen=True, slots=True)
class SavedAgent:
    """An agent after a put, and whether there was none of its name before."""

    agent: AgentRecord
    created: bool


@dataclass(frozen=True, slots=True)
class Expected:
    """What If-Match demands: an agent of one of these digests, or `any_version` that exists."""

    digests: frozenset[str] = frozenset()
    any_version: bool = False


class Agents:
    """The tenant's agents; `recalls` where turns can be found by meaning."""

    def __init__(
        self,
        clock: Clock,
        *,
        catalogue: ToolCatalogue,
        models: ModelCatalogue,
        recalls: bool = False,
    ) -> None:
        self._clock = clock
        self._catalogue = catalogue
        self._models = models
        self._recalls = recalls

    async def put(
        self,
        tx: Transaction,
        caller: Caller,
        *,
        name: str,
        spec: AgentSpec,
        expected: Expected | None = None,
    ) -> SavedAgent:
        """Create or replace an agent. Raises AgentInvalid, AgentChanged, ScopeMissing (admin)."""
        if lowered_guards(spec) and not caller.is_admin:
            raise ScopeMissing("admin")
        if faults := faults_of(spec, await self._around(tx, spec)):
            raise AgentInvalid(str(faults[0]), faults=faults)
        digest = digest_of(spec)
        await self._note(
            tx,
            AgentSaved(
                resource={"name": name, "digest": digest, **spec.document()}, by=caller.principal
            ),
        )
        before = await tx.agent(name)
        _require(expected, before)
        now = self._clock.now()
        created_at = before.created_at if before else now
        saved = AgentRecord(caller.tenant, name, spec.document(), digest, created_at, now)
        await tx.put_agent(saved)
        return SavedAgent(saved, created=before is None)

    async def read(self, session: Session, name: str) -> AgentRecord:
        """The agent of that name. Raises NotFound."""
        found = await session.agent(name)
        if found is None:
            raise NotFound("agent")
        return found

    async def page(self, session: Session, page: Page) -> list[AgentRecord]:
        """The tenant's agents, newest first."""
        return await session.agents(page)

    async def delete(
        self, tx: Transaction, caller: Caller, *, name: str, expected: Expected | None = None
    ) -> None:
        """Delete an agent; its open runs keep their snapshot. Raises NotFound, AgentChanged."""
        await self._note(tx, AgentDeleted(resource={"name": name}, by=caller.principal))
        before = await tx.agent(name)
        _require(expected, before)
        if before is None or not await tx.delete_agent(name):
            raise NotFound("agent")

    async def _note(self, tx: Transaction, payload: Payload) -> None:
        """Append to the audit log before anything is read.

        The append locks the tenant's log, so of two edits with one If-Match the second waits here,
        and then sees what the first made of the agent.
        """
        await tx.append_audit([NewEvent(payload)], now=self._clock.now())

    async def _around(self, tx: Transaction, spec: AgentSpec) -> Surroundings:
        delegates = {delegate.agent for delegate in spec.delegates}
        existing = {name for name in sorted(delegates) if await tx.agent(name) is not None}
        servers = await tx.mcp_servers()
        tools = self._catalogue.tools(servers)
        return Surroundings(
            tools=frozenset(tool.name for tool in tools),
            servers=frozenset(server.name for server in servers),
            agents=frozenset(existing),
            models=self._models,
            recalls=self._recalls,
        )


def _require(expected: Expected | None, found: AgentRecord | None) -> None:
    if expected is None:
        return
    if found is None or not (expected.any_version or found.digest in expected.digests):
        raise AgentChanged("the agent is not the one that If-Match names")
