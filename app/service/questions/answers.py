"""The answers that a turn may use: what the service itself has signed about its run (turn.md 7.2).

They are verified from the stored bytes each time a turn is driven, and read from nothing beside
them. A statement that does not hold answers nothing: its call asks again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

from app.trust.answer import match_answer
from app.trust.refusal import Refused
from app.trust.statement import StatementKind
from app.turn.options import VerifiedAnswer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from app.log.envelope import Event
    from app.log.records import RunRecord
    from app.service.statements import Statements
    from app.trust.answer import AnswerStatement, SignedAnswer

_UNANSWERED: Final = "auto_resolved"


async def verified_answers(
    statements: Statements, run: RunRecord, events: Sequence[Event]
) -> tuple[VerifiedAnswer, ...]:
    """The answers among a run's events, the latest to each question."""
    asked = {
        event.data["id"]: [one["index"] for one in event.data["questions"]]
        for event in events
        if event.type == "question.asked"
    }
    found: dict[tuple[str, int], VerifiedAnswer] = {}
    for event in events:
        if event.type != "question.answered" or event.private is None:
            continue
        signed = await _signed(statements, run, event)
        if signed is None:
            continue
        for answer in signed.answers:
            found[signed.call_id, answer.index] = _given(signed, answer)
        if signed.outcome == _UNANSWERED:
            for index in asked.get(signed.question_id, ()):
                found.setdefault((signed.call_id, index), _answer(signed, index, _UNANSWERED))
    return tuple(found.values())


async def _signed(statements: Statements, run: RunRecord, event: Event) -> AnswerStatement | None:
    """What the stored bytes say, if the service signed them about this question of this run."""
    text = (event.private or b"").decode(errors="replace")
    members = await statements.verified(StatementKind.QUESTION_ANSWER, text)
    signed = None if members is None else match_answer(members)
    if signed is None or isinstance(signed, Refused):
        return None
    about = (signed.tenant, signed.conversation_id, signed.run_id, signed.question_id)
    expected = (run.tenant, run.conversation_id, run.id, event.data["question_id"])
    return signed if about == expected else None


def _given(signed: AnswerStatement, answer: SignedAnswer) -> VerifiedAnswer:
    if answer.declined:
        return _answer(signed, answer.index, "declined")
    return _answer(signed, answer.index, "answered", answer)


def _answer(
    signed: AnswerStatement,
    index: int,
    outcome: Literal["answered", "declined", "auto_resolved"],
    answer: SignedAnswer | None = None,
) -> VerifiedAnswer:
    return VerifiedAnswer(
        turn_id=signed.turn_id,
        call_id=signed.call_id,
        index=index,
        args_sha256=signed.args_sha256,
        outcome=outcome,
        selected_index=answer.option if answer else None,
        selected_label=answer.label if answer else None,
        free_text=answer.text if answer else None,
        answered_by=signed.answered_by or "",
        is_principals_own=signed.is_principals_own,
    )
