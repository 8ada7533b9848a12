"""The turn of a run that is over and was not remembered, made again from its log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from app.ids import Identity
from app.log.queries import LogScope
from app.service.agents.snapshot import Snapshot
from app.service.context.remembering import remembered_turn
from app.service.replay.history import user_text

if TYPE_CHECKING:
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
    turn = remembered_turn(
        run,
        user_text(said.data),
        answered=run.answer["answer"] if run.answer else "",
        at=written.at,
        is_tainted=run.tainted,
    )
    identity = Identity(run.tenant, run.principal, run.conversation_id)
    memory = memories.memory(spec.memory.settings, model=spec.model)
    return (await memory.add_late_turn(identity, turn)).is_new
