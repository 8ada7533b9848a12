"""What a conversation remembers of its caller, as the caller may read and forget it (service.md 4).

Everybody in a conversation has a memory of their own there, and it is shown as the agent of their
newest run would be shown it by now.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from app.ids import Identity
from app.log.queries import Page, Reach
from app.runctx.memory import MemorySettings
from app.service.agent_spec import AgentSpec
from app.service.reach import visible_conversation

if TYPE_CHECKING:
    from app.runctx.memory import Health, LLMContextPatch
    from app.runctx.ports import MemoryStore
    from app.service.caller import Caller
    from app.service.memory_ports import Memories
    from app.service.ports import Session, Transaction


@dataclass(frozen=True, slots=True)
class Remembered:
    """What is remembered, and how its summaries are."""

    patch: LLMContextPatch
    health: Health


class ConversationMemory:
    """The memories of conversations in a caller's reach."""

    def __init__(self, memories: Memories) -> None:
        self._memories = memories

    async def read(self, session: Session, caller: Caller, conversation_id: str) -> Remembered:
        """What the caller's next run would be shown. Raises NotFound."""
        await visible_conversation(session, caller, conversation_id)
        memory = await self._of(session, caller, conversation_id)
        identity = Identity(caller.tenant, caller.principal, conversation_id)
        patch = await memory.get_llm_context(identity)
        return Remembered(patch, await memory.health(identity))

    async def forget(self, tx: Transaction, caller: Caller, conversation_id: str) -> None:
        """Forget turns, vectors, summaries and queues of the caller. Raises NotFound."""
        await visible_conversation(tx, caller, conversation_id)
        await tx.forget_memory(Identity(caller.tenant, caller.principal, conversation_id))

    async def _of(self, session: Session, caller: Caller, conversation_id: str) -> MemoryStore:
        """The memory of the agent of the newest run, as it is now; without one, of none."""
        where = {"conversation_id": conversation_id}
        runs = await session.runs(Reach(caller.principal), Page(), filters=where)
        names = (run.agent for run in runs if run.principal == caller.principal)
        agent = await session.agent(next(names, ""))
        if agent is None:
            return self._memories.memory(MemorySettings(), model="")
        spec = AgentSpec.model_validate(agent.spec)
        return self._memories.memory(spec.memory.settings, model=spec.model)
