"""Completed runs that are not remembered, for the write failed, and that nobody wants forgotten."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from app.store.texts import unescape

if TYPE_CHECKING:
    from datetime import datetime

    from app.store.server.row_security import EveryTenant

# The oldest first, for turns are numbered as they are stored.
_MISSED: Final = """
SELECT events.tenant, events.run_id FROM events JOIN runs ON runs.id = events.run_id
WHERE events.type = 'memory.written' AND events.data->>'written' = 'false' AND events.at >= $1
    AND runs.status = 'completed'
    AND NOT EXISTS (SELECT FROM memory_turns AS turns
        WHERE turns.tenant = runs.tenant AND turns.principal = runs.principal
            AND turns.conversation_id = runs.conversation_id AND turns.run_id = runs.id)
    AND NOT EXISTS (SELECT FROM memory_state AS state
        WHERE state.tenant = runs.tenant AND state.principal = runs.principal
            AND state.conversation_id = runs.conversation_id
            AND state.forgotten_through >= events.seq)
ORDER BY events.at, events.run_id"""


async def missed_turns(everyone: EveryTenant, *, since: datetime) -> list[tuple[str, str]]:
    """Tenant and id of each such run whose write failed then or later."""
    async with everyone.borrowed() as connection:
        rows = await connection.fetch(_MISSED, since)
    return [(unescape(row["tenant"]), unescape(row["run_id"])) for row in rows]
