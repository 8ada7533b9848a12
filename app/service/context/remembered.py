"""What a conversation remembers of its caller, as the caller may read and forget it (service.md 4).

Everybody in a conversation has a memory of their own there, and it is shown as the agent of their
newest run would be shown it by now.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from app.ids import Identity
from app.log.queries import Page, Reach
from app.runctx.memory import EmptyQuery, MemorySettings
from app.service.agents.spec import AgentSpec, MemoryMember
from app.service.reach import visible_conversation
from app.service.refusals import FieldFault, RequestInvalid

if TYPE_CHECKING:
    from app.runctx.memory import Health, LLMContextPatch, SearchResult
    from app.runctx.ports import MemoryStore
    from app.service.caller import Caller
    from app.service.ports.database import Session, Transaction
    from app.service.ports.memory import Memories


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
        memory, _ = await self._of(session, caller, conversation_id)
        identity = Identity(caller.tenant, caller.principal, conversation_id)
        patch = await memory.get_llm_context(identity)
        return Remembered(patch, await memory.health(identity))

    async def search(
        self, session: Session, caller: Caller, conversation_id: str, *, query: str, top_k: int
    ) -> SearchResult:
        """The caller's turns by meaning, from wherever their agent recalls.

        Raises NotFound, RequestInvalid, SemanticDisabled, EmbedderMismatch, EmbeddingFailed.
        """
        await visible_conversation(session, caller, conversation_id)
        memory, member = await self._of(session, caller, conversation_id)
        identity = Identity(caller.tenant, caller.principal, conversation_id)
        try:
            return await memory.search_turns(identity, query, top_k=top_k, scope=member.scope)
        except EmptyQuery as error:
            raise RequestInvalid(error.message, faults=(FieldFault("/q", error.message),)) from None

    async def forget(self, tx: Transaction, caller: Caller, conversation_id: str) -> None:
        """Forget turns, vectors, summaries and queues of the caller. Raises NotFound."""
        await visible_conversation(tx, caller, conversation_id)
        await tx.forget_memory(Identity(caller.tenant, caller.principal, conversation_id))

    async def _of(
        self, session: Session, caller: Caller, conversation_id: str
    ) -> tuple[MemoryStore, MemoryMember]:
        """The memory of the agent of the newest run, as it is now; without one, of none."""
        own = {"conversation_id": conversation_id, "principal": caller.principal}
        runs = await session.runs(Reach(caller.principal), Page(limit=1), filters=own)
        agent = await session.agent(runs[0].agent) if runs else None
        if agent is None:
            return self._memories.memory(MemorySettings(), model=""), MemoryMember()
        spec = AgentSpec.model_validate(agent.spec)
        return self._memories.memory(spec.memory.settings, model=spec.model), spec.memory
