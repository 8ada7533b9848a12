"""Binding a run to its agent: the stricter of the run's snapshot and the agent as it is now.

Policy that was tightened since the run was created binds it; policy that was loosened does not
(service.md 3, turn.md 6.4). A deleted agent's open runs go on under their snapshot.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final

import orjson

from app.log.queries import LogScope
from app.policy.capability import ALL_CAPABILITIES, CapabilitySet, parse_capabilities
from app.policy.grants import GrantPolicy
from app.service.agent_spec import AgentSpec
from app.service.call_rules import call_rules
from app.service.mcp_spec import servers_named
from app.turn.agent import BoundAgent
from app.turn.texts import ASK_QUESTION

if TYPE_CHECKING:
    from collections.abc import Sequence

    from app.log.envelope import Event
    from app.log.records import AgentRecord, ApprovalRecord
    from app.log.servers import McpServerRecord
    from app.service.mcp_servers import McpServers
    from app.service.ports import Providers, Session, Toolbox
    from app.turn.ports import Provider, ToolExecutor

# Most runs of a while are of few agents, and reading a document costs more than driving a step.
_KEPT_SPECS: Final = 64


@dataclass(frozen=True, slots=True)
class Bound:
    """Everything a turn of one run works with; `spec` is the run's snapshot."""

    spec: AgentSpec
    agent: BoundAgent
    executor: ToolExecutor
    provider: Provider


class MissingSnapshot(ValueError):
    """A run without the agent it was created with: its log was altered."""


class Binder:
    """Binds runs to agents, tools and models of this deployment.

    `servers` are asked what their tools are whenever a turn begins.
    """

    def __init__(
        self, *, toolbox: Toolbox, providers: Providers, servers: McpServers | None = None
    ) -> None:
        self._toolbox = toolbox
        self._servers = servers
        self._providers = providers
        self._read = lru_cache(_KEPT_SPECS)(_spec)

    def bind(
        self,
        tenant: str,
        created: Event | None,
        *,
        name: str,
        present: AgentRecord | None,
        servers: Sequence[McpServerRecord] = (),
    ) -> Bound:
        """The agent `name` of the run that `created` began, ready to work.

        `present` is the agent as it is now, if it still is; `servers` are the MCP servers that it
        names. Raises MissingSnapshot.
        """
        if created is None or created.private is None:
            raise MissingSnapshot("the run has no snapshot of its agent")
        spec = self._read(created.private)
        now = spec if present is None else self._read(orjson.dumps(present.spec))
        executor = self._toolbox.executor(
            tenant=tenant,
            conversation_id=created.conversation_id,
            names=spec.tools,
            rules=call_rules(spec, now),
            escape_hatch=spec.escape_hatch,
            servers=servers,
        )
        bound = BoundAgent(
            name=name,
            model=spec.model,
            instructions=spec.instructions,
            grant_policy=_policy(spec, now),
            execution_ceiling=_ceiling(spec) & _ceiling(now),
            output_schema=spec.output_schema,
            asks_questions=ASK_QUESTION in spec.tools,
        )
        return Bound(spec, bound, executor, self._providers.provider(spec.model))

    async def executor_of(self, session: Session, approval: ApprovalRecord) -> ToolExecutor:
        """The tools of the run that an approval belongs to."""
        log, name = LogScope(approval.conversation_id, approval.run_id), approval.card["agent"]
        created = await session.latest(log, "run.created")
        present = await session.agent(name)
        named = self._servers_named(created)
        servers = await session.mcp_servers(named) if named else ()
        return self.bind(
            approval.tenant, created, name=name, present=present, servers=servers
        ).executor

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
        return servers_named(self._read(created.private).tools)


def _spec(document: bytes) -> AgentSpec:
    return AgentSpec.model_validate(orjson.loads(document))


def _ceiling(spec: AgentSpec) -> CapabilitySet:
    if spec.execution_ceiling is None:
        return ALL_CAPABILITIES
    return parse_capabilities(spec.execution_ceiling)


def _policy(spec: AgentSpec, present: AgentSpec) -> GrantPolicy:
    then, now = _grants(spec), _grants(present)
    base = then.base & now.base
    return GrantPolicy(base, then.taint_resilient & now.taint_resilient & base)


def _grants(spec: AgentSpec) -> GrantPolicy:
    resilient = parse_capabilities(spec.grant_policy.taint_resilient)
    if spec.grant_policy.base is None:
        return GrantPolicy(taint_resilient=resilient)
    return GrantPolicy(parse_capabilities(spec.grant_policy.base), resilient)
