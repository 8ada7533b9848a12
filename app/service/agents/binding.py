"""Binding a run to its agent: the stricter of the run's snapshot and the agent as it is now.

Policy that was tightened since the run was created binds it; policy that was loosened does not
(service.md 3, turn.md 6.4). A deleted agent's open runs go on under their snapshot.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Final

import orjson

from app.ids import Identity
from app.log.queries import LogScope
from app.log.servers import SEPARATOR
from app.policy.capability import ALL_CAPABILITIES, CapabilitySet, parse_capabilities
from app.policy.grants import GrantPolicy
from app.service.agents.call_rules import call_rules
from app.service.agents.mcp_spec import server_named, servers_named
from app.service.agents.snapshot import Snapshot, delegates_of
from app.turn.agent import BoundAgent
from app.turn.texts import ASK_QUESTION

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from app.log.envelope import Event
    from app.log.records import AgentRecord, ApprovalRecord
    from app.log.servers import McpServerRecord
    from app.runctx.ports import MemoryStore
    from app.runctx.skills.reader import RunSkills
    from app.service.agents.mcp_servers import McpServers
    from app.service.agents.spec import AgentSpec
    from app.service.ports.database import Session
    from app.service.ports.memory import Memories
    from app.service.ports.providers import Providers
    from app.service.ports.tools import Toolbox
    from app.turn.ports import Provider, SharedFiles, ToolExecutor

# Most runs of a while are of few agents, and reading a document costs more than driving a step.
_KEPT_SPECS: Final = 64


@dataclass(frozen=True, slots=True)
class Bound:
    """Everything a turn of one run works with; `spec` is the run's snapshot.

    `delegates` are the workers it may have, each bound like an agent; `files` is the way of its
    files to them, `skills` what its skill tools read, and `memory` what it remembers with, if it
    does. `trusts_callers`: the memory that they attach to a run does not taint it, and by
    `trusts_uploads` neither do the files that people uploaded.
    """

    spec: AgentSpec
    agent: BoundAgent
    executor: ToolExecutor
    provider: Provider
    files: SharedFiles | None = None
    delegates: Mapping[str, Bound] = field(default_factory=dict)
    skills: RunSkills | None = None
    memory: MemoryStore | None = None
    trusts_callers: bool = False
    trusts_uploads: bool = False


@dataclass(frozen=True, slots=True)
class RunPlace:
    """Where a run works: for whom, with which MCP servers, and with skills as of which revision."""

    tenant: str
    principal: str
    servers: Sequence[McpServerRecord] = ()
    skills_revision: int | None = None


class MissingSnapshot(ValueError):
    """A run without the agent it was created with: its log was altered."""


class Binder:
    """Binds runs to agents, tools and models of this deployment.

    `servers` are asked what their tools are whenever a turn begins.
    """

    def __init__(
        self,
        *,
        toolbox: Toolbox,
        providers: Providers,
        servers: McpServers | None = None,
        memories: Memories | None = None,
    ) -> None:
        self._toolbox = toolbox
        self._memories = memories
        self._servers = servers
        self._providers = providers
        self._read = lru_cache(_KEPT_SPECS)(Snapshot.decode)

    async def bound(
        self,
        session: Session,
        created: Event | None,
        *,
        place: RunPlace,
        name: str,
        present: AgentRecord | None,
    ) -> Bound:
        """The agent `name` of the run that `created` began, ready to work.

        `present` is the agent as it is now, if it still is. Raises MissingSnapshot.
        """
        if created is None or created.private is None:
            raise MissingSnapshot("the run has no snapshot of its agent")
        snapshot = self._read(created.private)
        works = _Place(created.conversation_id, created.run_id or "", place)
        bound = self._bind(works, name, snapshot.spec, present=present)
        bound = replace(bound, memory=self._memory(snapshot.spec))
        if not snapshot.delegates:
            return bound
        now = await delegates_of(session, snapshot.spec)
        return replace(
            bound,
            files=self._toolbox.shared_files(
                tenant=place.tenant, conversation_id=created.conversation_id
            ),
            delegates={
                worker: self._bind(works, worker, spec, present=now.get(worker), parent=bound)
                for worker, spec in snapshot.delegates.items()
            },
        )

    def _bind(
        self,
        place: _Place,
        name: str,
        spec: AgentSpec,
        *,
        present: AgentRecord | None,
        parent: Bound | None = None,
    ) -> Bound:
        """An agent under the stricter of its snapshot and its present; a worker within bounds."""
        now = spec if present is None else self._read(orjson.dumps(present.spec)).spec
        ceiling, names = _ceiling(spec) & _ceiling(now), list(spec.tools)
        if parent is not None:
            ceiling &= parent.agent.execution_ceiling
            names = _worker_tools(names, parent.spec.tools)
        skills = self._skills(place, spec, names)
        toolbox = self._toolbox if skills is None else self._toolbox.reading(skills)
        rules = call_rules(spec, now)
        executor = toolbox.executor(
            tenant=place.run.tenant,
            conversation_id=place.conversation_id,
            names=names,
            rules=rules,
            escape_hatch=spec.escape_hatch and parent is None,
            servers=place.run.servers,
        )
        bound = BoundAgent(
            name=name,
            model=spec.model,
            instructions=spec.instructions,
            grant_policy=_policy(spec, now),
            execution_ceiling=ceiling,
            output_schema=spec.output_schema,
            asks_questions=ASK_QUESTION in spec.tools,
            context_window=self._providers.context_window(spec.model),
        )
        trusting = spec.memory.caller_memory_trusted and now.memory.caller_memory_trusted
        return Bound(
            spec,
            bound,
            executor,
            self._providers.provider(spec.model),
            skills=skills,
            trusts_callers=trusting,
            trusts_uploads=rules.trusts_uploads,
        )

    def _memory(self, spec: AgentSpec) -> MemoryStore | None:
        """What the run's agent remembers with; its workers have no memory of their own."""
        if self._memories is None or not spec.memory.remembers:
            return None
        return self._memories.memory(spec.memory.settings, model=spec.model)

    def _skills(self, place: _Place, spec: AgentSpec, names: Sequence[str]) -> RunSkills | None:
        """What an agent with these tools reads of the run's skills, if it reads any."""
        run = place.run
        if run.skills_revision is None or not spec.reads_skills:
            return None
        return self._toolbox.skills(
            Identity(run.tenant, run.principal, place.conversation_id, place.run_id),
            revision=run.skills_revision,
            settings=spec.skills.settings,
            names=names,
            servers=run.servers,
        )

    def reads_skills(self, created: Event | None) -> bool:
        """Whether the run that `created` began reads skills, itself or by a worker."""
        private = None if created is None else created.private
        return private is not None and self._read(private).reads_skills

    async def executor_of(self, session: Session, approval: ApprovalRecord) -> ToolExecutor:
        """The tools of the agent, or of the worker, that an approval is about."""
        log, name = LogScope(approval.conversation_id, approval.run_id), approval.card["agent"]
        created = await session.latest(log, "run.created")
        present = await session.agent(name)
        named = self._servers_named(created)
        servers = await session.mcp_servers(named) if named else ()
        bound = await self.bound(
            session,
            created,
            place=RunPlace(approval.tenant, "", servers),
            name=name,
            present=present,
        )
        worker = approval.card["worker"]
        return (bound if worker is None else bound.delegates[worker["agent"]]).executor

    async def fresh_servers(self, tenant: str, created: Event | None) -> Sequence[McpServerRecord]:
        """The MCP servers that the run's agent names, asked for their tools just now.

        A turn begins with what they are at that moment, and keeps to it.
        """
        named = self._servers_named(created)
        if self._servers is None or not named:
            return ()
        return await self._servers.fresh(tenant, named)

    def _servers_named(self, created: Event | None) -> list[str]:
        if created is None or created.private is None:
            return []
        return servers_named(self._read(created.private).spec.tools)


@dataclass(frozen=True, slots=True)
class _Place:
    """Where an agent works: in which conversation, in which run, and what there is for it."""

    conversation_id: str
    run_id: str
    run: RunPlace


def _worker_tools(own: Sequence[str], parents: Sequence[str]) -> list[str]:
    """The entries of an agent's tools that hold for it as a worker of that parent.

    Nothing with an effect comes by default: a worker has the built-in tools that its own document
    names. Of an MCP server it has what both agents name.
    """
    return [entry for name in own for entry in _shared(name, parents)]


def _shared(entry: str, parents: Sequence[str]) -> Iterator[str]:
    server = server_named(entry)
    if server is None or entry in parents or f"{server}:*" in parents:
        yield entry
    elif entry.endswith(":*"):
        yield from (one for one in parents if one.startswith(f"{server}{SEPARATOR}"))


def _ceiling(spec: AgentSpec) -> CapabilitySet:
    if spec.execution_ceiling is None:
        return ALL_CAPABILITIES
    return parse_capabilities(spec.execution_ceiling)


def _policy(spec: AgentSpec, present: AgentSpec) -> GrantPolicy:
    then, now = spec.grant_policy.policy(), present.grant_policy.policy()
    base = then.base & now.base
    return GrantPolicy(base, then.taint_resilient & now.taint_resilient & base)
