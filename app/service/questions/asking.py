"""From a turn's pending questions to those that people see (service.md 5)."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from app.engine.json.arguments import sha256_hex
from app.log.approvals import QuestionAsked
from app.log.envelope import NewEvent, wire_time
from app.log.private import QuestionBinding

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from app.log.records import RunRecord
    from app.service.agents.binding import Bound
    from app.turn.result import PendingQuestion


def question_asked(
    question_id: str,
    pending: Sequence[PendingQuestion],
    *,
    run: RunRecord,
    turn_id: str,
    bound: Bound,
    now: datetime,
) -> NewEvent:
    """A `question.asked` with the open questions of one call."""
    first, ttl, approvers = pending[0], bound.spec.question_ttl_s, bound.spec.approvers
    binding = QuestionBinding(
        turn_id=first.occurrence_turn_id or turn_id,
        args_sha256=sha256_hex(first.arguments_json.encode()),
        roles=tuple(approvers.roles),
        programs=tuple(approvers.programs),
    )
    asked = QuestionAsked(
        id=question_id,
        status="pending",
        run_id=run.id,
        call_id=first.call_id,
        questions=tuple(
            {"index": one.index, **one.question.model_dump(mode="json"), "answer": None}
            for one in pending
        ),
        asked_at=wire_time(now),
        expires_at=wire_time(now + timedelta(seconds=ttl)) if ttl else None,
    )
    return NewEvent(asked, run_id=run.id, turn_id=turn_id, private=binding.encode())
