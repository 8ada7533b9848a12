"""Binding a run to its agent: the stricter of the run's snapshot and the agent as it is now.

Policy that was tightened since the run was created binds it; policy that was loosened does not
(service.md 3, turn.md 6.4). A deleted agent's open runs go on under their snapshot.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import orjson

from app.log.queries import LogScope
from app.policy.capability import ALL_CAPABILITIES, CapabilitySet, parse_capabilities
from app.policy.consent import Consent, ConsentRules
from app.policy.grants import GrantPolicy
from app.service.agent_spec import AgentSpec
from app.turn.agent import BoundAgent

if TYPE_CHECKING:
    from app.log.records import ApprovalRecord
    from app.service.ports import Providers, Session, Toolbox
    from app.turn.ports import Provider, ToolExecutor


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
    """Binds runs to agents, tools and models of this deployment."""

    def __init__(self, *, toolbox: Toolbox, providers: Providers) -> None:
        self._toolbox = toolbox
        self._providers = providers

    async def bind(
        self, session: Session, *, tenant: str, conversation_id: str, run_id: str, agent: str
    ) -> Bound:
        """The run's agent, ready to work. Raises MissingSnapshot."""
        created = await session.latest(LogScope(conversation_id, run_id), "run.created")
        if created is None or created.private is None:
            raise MissingSnapshot(f"run {run_id!r} has no snapshot of its agent")
        spec = AgentSpec.model_validate(orjson.loads(created.private))
        record = await session.agent(agent)
        present = spec if record is None else AgentSpec.model_validate(record.spec)
        executor = self._toolbox.executor(
            tenant=tenant,
            conversation_id=conversation_id,
            names=spec.tools,
            consent=(_consent(spec), _consent(present)),
        )
        bound = BoundAgent(
            name=agent,
            model=spec.model,
            instructions=spec.instructions,
            grant_policy=_policy(spec, present),
            execution_ceiling=_ceiling(spec) & _ceiling(present),
        )
        return Bound(spec, bound, executor, self._providers.provider(spec.model))

    async def executor_of(self, session: Session, approval: ApprovalRecord) -> ToolExecutor:
        """The tools of the run that an approval belongs to."""
        bound = await self.bind(
            session,
            tenant=approval.tenant,
            conversation_id=approval.conversation_id,
            run_id=approval.run_id,
            agent=approval.card["agent"],
        )
        return bound.executor


def _consent(spec: AgentSpec) -> ConsentRules:
    return ConsentRules({pattern: Consent(rule) for pattern, rule in spec.approval.items()})


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
