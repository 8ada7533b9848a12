"""What a run keeps of its agent, as it was when the run was created (service.md 3).

The workers that the agent may delegate to are part of it: what binds them is tightened and loosened
by the same rule as what binds the agent.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import orjson

from app.service.agents.spec import AgentSpec

if TYPE_CHECKING:
    from collections.abc import Mapping

    from app.log.records import AgentRecord
    from app.service.ports.database import Session

_DELEGATES: Final = "delegate_agents"


@dataclass(frozen=True, slots=True)
class Snapshot:
    """An agent, and by name those of its delegates that there were."""

    spec: AgentSpec
    delegates: Mapping[str, AgentSpec] = field(default_factory=dict)

    @property
    def reads_skills(self) -> bool:
        """Whether the agent reads skills, or a worker of it."""
        return any(spec.reads_skills for spec in (self.spec, *self.delegates.values()))

    @classmethod
    def decode(cls, private: bytes) -> Snapshot:
        """The snapshot of stored bytes. Raises ValueError for any other bytes."""
        stored = orjson.loads(private)
        delegates = stored.pop(_DELEGATES, {})
        return cls(
            AgentSpec.model_validate(stored),
            {name: AgentSpec.model_validate(one) for name, one in delegates.items()},
        )


async def take_snapshot(session: Session, agent: AgentRecord) -> bytes:
    """An agent as it is now, as the private bytes of `run.created`."""
    if not agent.spec.get("delegates"):
        return orjson.dumps(agent.spec)
    delegates = await delegates_of(session, AgentSpec.model_validate(agent.spec))
    kept = {name: one.spec for name, one in delegates.items()}
    return orjson.dumps({**agent.spec, _DELEGATES: kept})


async def delegates_of(session: Session, spec: AgentSpec) -> dict[str, AgentRecord]:
    """The agents that an agent may delegate to, as they are now; those that are gone left out."""
    found = {one.agent: await session.agent(one.agent) for one in spec.delegates}
    return {name: agent for name, agent in found.items() if agent is not None}
