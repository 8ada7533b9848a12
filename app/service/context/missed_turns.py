"""The turn of a run that is over and was not remembered, made again from its log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from app.ids import Identity
from app.log.queries import LogScope
from app.policy.taint import Trust
from app.runctx.memory import ConversationTurn
from app.service.agents.snapshot import Snapshot
from app.service.replay.history import user_message, user_texts

if TYPE_CHECKING:
    from datetime import datetime

    from app.log.records import RunRecord
    from app.service.ports.database import Session
    from app.service.ports.memory import Memories

_TOLD: Final = ("run.created", "message.user", "memory.written")


async def remember_now(session: Session, memories: Memories, run_id: str) -> bool:
    """Store the turn of a completed run as its worker would have; False where it is there.

    Raises EmbeddingFailed, StoreUnavailable, and Misconfigured where this process has no such
    memory.
    """
    run = await session.run(run_id)
    if run is None or run.status != "completed":
        return False
    events = await session.events_of(LogScope(run.conversation_id, run.id), _TOLD)
    of = {event.type: event for event in events}
    created, said, written = (of[type_] for type_ in _TOLD)
    if created.private is None:
        return False
    spec = Snapshot.decode(created.private).spec
    if not spec.memory.remembers:
        return False
    turn = _turn(run, "\n".join(user_texts([user_message(said.data)])), at=written.at)
    identity = Identity(run.tenant, run.principal, run.conversation_id)
    memory = memories.memory(spec.memory.settings, model=spec.model)
    return (await memory.add_late_turn(identity, turn)).is_new


def _turn(run: RunRecord, said: str, *, at: datetime) -> ConversationTurn:
    return ConversationTurn(
        user_message=said,
        assistant_response=run.answer["answer"] if run.answer else "",
        at=at,
        trust=Trust.QUARANTINED_CONTENT if run.tainted else Trust.TRUSTED_USER,
        run=run.id,
        session=run.conversation_id,
    )
