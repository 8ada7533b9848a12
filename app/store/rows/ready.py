"""Which run of a conversation is to be driven next. One rule, in SQL, for all who ask.

One run is active at a time: it has started and has not ended. While it is paused nothing is ready;
else it goes on, or, when there is none, the run that interrupted the one before, newest first, or
the oldest.
"""

from __future__ import annotations

from typing import Final

# The order in which the unended runs `r` of a conversation are driven.
ORDER: Final = """
    r.started_at IS NULL, CASE WHEN r.goes_next THEN r.created_seq END DESC NULLS LAST,
    r.created_seq"""

# Those of some conversations that have a run to be driven.
READY_AMONG: Final = """
SELECT c.id FROM conversations c
WHERE c.id = ANY($1::text[])
    AND EXISTS (SELECT FROM runs r WHERE r.conversation_id = c.id AND r.ended_at IS NULL
        AND r.status IN ('queued', 'running'))
    AND NOT EXISTS (SELECT FROM runs r WHERE r.conversation_id = c.id AND r.ended_at IS NULL
        AND r.status = 'paused')"""
