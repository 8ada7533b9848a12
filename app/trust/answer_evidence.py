"""What a log has asked people and what they answered, by the word of the service that signed it.

Three rules: an answer is signed with a key of the service and about the question that stands before
it; the event tells what was signed; a question is answered once, and by an option it has.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict

from app.trust.answer import verify_answer
from app.trust.documents import match_model, read_model
from app.trust.refusal import Refused

if TYPE_CHECKING:
    from collections.abc import Mapping

    from app.trust.answer import AnswerStatement, SignedAnswer
    from app.trust.keys import P256Key


class _Facts(BaseModel):
    """The fields that are looked at; the rest is the log's own business."""

    model_config = ConfigDict(strict=True, frozen=True, extra="ignore")


class _Option(_Facts):
    label: str


class _Question(_Facts):
    index: int
    options: list[_Option]


class _Asked(_Facts):
    id: str
    run_id: str
    call_id: str
    questions: list[_Question]


class _Call(_Facts):
    """The private bytes of `question.asked`."""

    turn_id: str
    args_sha256: str


class _Answered(_Facts):
    question_id: str
    call_id: str
    answers: list[dict[str, Any]]
    outcome: str
    answered_by: str | None


@dataclass(slots=True)
class AnswerEvidence:
    """The questions and answers of one log, in the order in which it tells them."""

    tenant: str
    conversation_id: str
    keys: Mapping[str, P256Key]
    _asked: dict[str, tuple[_Asked, _Call]] = field(default_factory=dict)
    _given: defaultdict[str, set[int]] = field(default_factory=lambda: defaultdict(set))

    def problem(self, kind: str, data: Mapping[str, Any], private: bytes | None) -> str | None:
        """What is wrong with an event of type `kind`, or None; sound ones are taken in."""
        match kind:
            case "question.asked":
                return self._ask(match_model(_Asked, data), private)
            case "question.answered":
                return self._answer(match_model(_Answered, data), private)
            case _:
                return None

    def _ask(self, asked: _Asked | Refused, private: bytes | None) -> str | None:
        if isinstance(asked, Refused):
            return asked.reason
        call = read_model(_Call, private or b"")
        if isinstance(call, Refused):
            return "the call that the question is about is not kept beside it"
        if asked.id in self._asked:
            return "this question was asked before"
        self._asked[asked.id] = asked, call
        return None

    def _answer(self, answered: _Answered | Refused, private: bytes | None) -> str | None:
        if isinstance(answered, Refused):
            return answered.reason
        if answered.question_id not in self._asked:
            return "no sound question.asked for this answer stands before it"
        if answered.outcome == "cancelled":
            return "a cancelled question has no answers" if answered.answers else None
        signed = verify_answer((private or b"").decode(errors="replace"), keys=self.keys)
        if isinstance(signed, Refused):
            return f"the signed answer does not hold: {signed.reason}"
        return self._verified(answered, signed)

    def _verified(self, answered: _Answered, signed: AnswerStatement) -> str | None:
        asked, call = self._asked[answered.question_id]
        about = (self.tenant, self.conversation_id, asked.run_id, asked.id, asked.call_id)
        if about != _subject(signed) or call != _Call(
            turn_id=signed.turn_id, args_sha256=signed.args_sha256
        ):
            return "the signed answer is about another question"
        told = (answered.outcome, answered.answers, answered.answered_by, answered.call_id)
        if told != (signed.outcome, signed.told(), signed.answered_by, signed.call_id):
            return "the event tells other than what was signed"
        options = {question.index: question.options for question in asked.questions}
        for answer in signed.answers:
            if not _is_offered(answer, options):
                return "an answer is to a question, or by an option, that was not shown"
            if answer.index in self._given[asked.id]:
                return "a question is answered that had its answer"
            self._given[asked.id].add(answer.index)
        return None


def _subject(signed: AnswerStatement) -> tuple[str, str, str, str, str]:
    return (
        signed.tenant,
        signed.conversation_id,
        signed.run_id,
        signed.question_id,
        signed.call_id,
    )


def _is_offered(answer: SignedAnswer, options: Mapping[int, list[_Option]]) -> bool:
    """Whether the question was asked and, if an option was chosen, offered just that."""
    offered = options.get(answer.index)
    if offered is None or answer.option is None:
        return offered is not None
    return 0 <= answer.option < len(offered) and offered[answer.option].label == answer.label
