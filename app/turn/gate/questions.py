"""A call to `ask_question`, which is never executed (turn.md 3.4 row 3, 7.2).

A call holds a few questions and resolves when each has its answer. What a model asked badly becomes
an error result that it can act on: nobody is asked, nothing pauses.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.engine.json.text import compact_json
from app.policy.taint import Trust, highest, tag_of_answer
from app.trust.refusal import Refused
from app.turn import texts
from app.turn.forms.question import read_questions
from app.turn.gate.verdict import AskQuestions, Settle
from app.turn.result import PendingQuestion

if TYPE_CHECKING:
    from pydantic import JsonValue

    from app.engine.json.arguments import Arguments
    from app.turn.forms.question import Question
    from app.turn.options import VerifiedAnswer
    from app.turn.state.call import OpenCall
    from app.turn.state.context import TurnCtx


def ask_or_answer(ctx: TurnCtx, call: OpenCall, args: Arguments) -> Settle | AskQuestions:
    """Row 3 of turn.md 3.4: an error result, the answers as result, or the open questions."""
    asked = read_questions(args)
    if isinstance(asked, Refused):
        refused = texts.invalid_question(asked.reason)
        return Settle(call=call, result=refused, outcome="invalid_arguments")
    given = ctx.answers.of(call, args)
    open_questions = tuple(
        PendingQuestion(
            call_id=call.call_id,
            index=index,
            question=question,
            arguments_json=args.canonical.decode(),
            occurrence_turn_id=call.turn_id if call.is_dangling else None,
        )
        for index, question in enumerate(asked)
        if index not in given
    )
    if open_questions:
        return AskQuestions(call=call, questions=open_questions)
    answers = [_told(index, one, given[index]) for index, one in enumerate(asked)]
    return Settle(
        call=call,
        result=compact_json({"answers": answers}),
        outcome="answered",
        trust=highest(map(_trust, given.values())),
    )


def _told(index: int, question: Question, answer: VerifiedAnswer) -> dict[str, JsonValue]:
    """One answer as the model sees it."""
    told: dict[str, JsonValue] = {
        "index": index,
        "question": question.question,
        "outcome": answer.outcome,
    }
    match answer.outcome:
        case "declined":
            return told | {"note": texts.DECLINED}
        case "auto_resolved":
            return told | {"note": texts.AUTO_RESOLVED}
        case _ if answer.free_text is not None:
            return told | {"text": answer.free_text}
        case _:
            return told | {"option": answer.selected_index, "label": answer.selected_label}


def _trust(answer: VerifiedAnswer) -> Trust:
    if answer.outcome == "auto_resolved":
        return Trust.UNSPECIFIED
    has_own_words = answer.free_text is not None
    return tag_of_answer(has_own_words=has_own_words, is_principals_own=answer.is_principals_own)
