"""The workers of a run's agent, and who must agree to what they do (turn.md 6.6, 7.1).

Whoever decides a call of a worker must satisfy the policies of both agents.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from app.log.approvals import Required
from app.turn.options import DelegateDescriptor

if TYPE_CHECKING:
    from app.log.payload import WorkerRef
    from app.service.agents.binding import Bound
    from app.service.agents.spec import AgentSpec

_ASSURANCE: Final = ("channel", "key", "passkey")


def descriptors(bound: Bound) -> tuple[DelegateDescriptor, ...]:
    """The workers as a turn gets them."""
    return tuple(
        _descriptor(bound, worker, tuple(delegate.share_in))
        for delegate in bound.spec.delegates
        if (worker := bound.delegates.get(delegate.agent)) is not None
    )


def _descriptor(bound: Bound, worker: Bound, share_in: tuple[str, ...]) -> DelegateDescriptor:
    spec, agent = worker.spec, worker.agent
    return DelegateDescriptor(
        agent_id=agent.name,
        instructions=agent.instructions,
        provider=worker.provider,
        provider_name=spec.model.partition(":")[0],
        model=agent.model,
        tools=worker.executor,
        tool_specs=tuple(worker.executor.specs()),
        max_steps=spec.max_steps,
        native_search_allowed=spec.native_search,
        escalate_sandbox_denials=spec.escalate_sandbox_denials,
        share_in=share_in,
        files=bound.files,
        grant_policy=agent.grant_policy,
        execution_ceiling=agent.execution_ceiling,
    )


def asker(bound: Bound, worker: WorkerRef | None) -> Bound:
    """Who wants the call: the run's agent, or a worker of it. Raises KeyError for no such."""
    return bound if worker is None else bound.delegates[worker.agent]


def required(tool: str, bound: Bound, worker: WorkerRef | None) -> Required:
    """Whose answer counts: for a worker's call of whoever satisfies both agents."""
    own = _required(tool, asker(bound, worker).spec)
    if worker is None:
        return own
    parent = _required(tool, bound.spec)
    return Required(
        count=max(own.count, parent.count),
        assurance=max(own.assurance, parent.assurance, key=_ASSURANCE.index),
        roles=own.roles,
        allow_self=own.allow_self and parent.allow_self,
        also_roles=None if set(parent.roles) == set(own.roles) else parent.roles,
    )


def programs(bound: Bound, worker: WorkerRef | None) -> list[str]:
    """The reviewer programs that may decide: for a worker's call those that both agents name."""
    own = asker(bound, worker).spec.approvers.programs
    return [one for one in own if one in bound.spec.approvers.programs]


def approval_ttl_s(bound: Bound, worker: WorkerRef | None) -> int:
    """How long a request waits: the shorter time of both agents, 0 if neither has one."""
    times = {bound.spec.approval_ttl_s, asker(bound, worker).spec.approval_ttl_s} - {0}
    return min(times, default=0)


def _required(tool: str, spec: AgentSpec) -> Required:
    approvers, assurance = spec.approvers, spec.assurance
    return Required(
        count=approvers.count,
        assurance=assurance.tools.get(tool, assurance.default),
        roles=tuple(approvers.roles),
        allow_self=approvers.allow_self,
    )
