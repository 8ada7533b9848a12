"""The memory write at the end of a run that has its answer (run-context.md 9.2).

The answer stands whatever becomes of the write, so nothing of it leaves but a fact. A worker that
dies in between is repeated harmlessly: the turn of one run is stored once.

Of a cancelled run nothing is remembered, though a write that began is not broken off: whichever of
the two comes first, the other waits. The write finds the run cancelled and stores nothing, or the
cancel finds the turn and deletes it.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import structlog

from app.errors import TurngateError
from app.log.runs import MemoryWritten
from app.policy.taint import Trust
from app.runctx.memory import ConversationTurn

if TYPE_CHECKING:
    from datetime import datetime

    from app.ids import Identity
    from app.log.records import RunRecord
    from app.runctx.ports import MemoryStore

WRITE_S: Final = 10.0

log = structlog.get_logger("turngate.memory")


def remembered_turn(
    run: RunRecord, said: str, *, answered: str, at: datetime, is_tainted: bool
) -> ConversationTurn:
    """What is remembered of a run: its input and its answer, untrusted where it met taint."""
    return ConversationTurn(
        user_message=said,
        assistant_response=answered,
        at=at,
        trust=Trust.QUARANTINED_CONTENT if is_tainted else Trust.TRUSTED_USER,
        run=run.id,
        session=run.conversation_id,
    )


async def remember(store: MemoryStore, identity: Identity, turn: ConversationTurn) -> MemoryWritten:
    """Store the turn, and say how that went. Cancelling waits for the write, and then passes on."""
    writing = asyncio.ensure_future(_write(store, identity, turn))
    try:
        return await asyncio.shield(writing)
    except asyncio.CancelledError:
        await asyncio.wait([writing])
        raise


async def _write(store: MemoryStore, identity: Identity, turn: ConversationTurn) -> MemoryWritten:
    try:
        async with asyncio.timeout(WRITE_S):
            written = await store.add_turn(identity.session_scope(), turn)
    except Exception as error:  # noqa: BLE001 - the root of a task: the run has its answer already
        # The text of an exception may quote the turn, so only its kind is logged.
        log.warning("memory.write_failed", run=identity.run, kind=type(error).__name__)
        return MemoryWritten(written=False, error=_code(error))
    return MemoryWritten(written=True, turn_id=written.turn_id, health=written.health.value)


def _code(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return "timeout"
    return error.code if isinstance(error, TurngateError) else "internal"
