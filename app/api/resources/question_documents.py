"""Questions and answers on the wire (service.md 5)."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from app.api.wire import Body, Document, Time
from app.log.approvals import QuestionStatus
from app.log.records import QuestionRecord
from app.service.members import require_written
from app.service.requests import GivenAnswer

# Three answers of this size, in any script, are shown to a model uncut (turn.md 3.5).
ANSWER_CHARS: Final = 4000
MANY: Final = 100

Text = Annotated[str, Field(max_length=ANSWER_CHARS), AfterValidator(require_written)]


class Answer(Body):
    """The answer to one question: exactly one of `option`, `text` and `declined`."""

    index: Annotated[int, Field(ge=0)]
    option: Annotated[int, Field(ge=0)] | None = None
    text: Text | None = None
    declined: Literal[True] | None = None

    @model_validator(mode="after")
    def _one_answer(self) -> Self:
        if sum(given is not None for given in (self.option, self.text, self.declined)) != 1:
            raise ValueError("needs exactly one of option, text and declined")
        return self

    def given(self) -> GivenAnswer:
        """What the use case is told."""
        return GivenAnswer(
            index=self.index,
            option=self.option,
            text=self.text,
            declined=self.declined is True,
        )


class AnswerQuestion(Body):
    """Answers to some or all questions of a call."""

    answers: Annotated[list[Answer], Field(min_length=1, max_length=MANY)]


class QuestionOption(Document):
    """One of the answers that may be chosen, and what choosing it leads to."""

    label: str
    consequence: str
    recommended: bool


class GivenQuestionAnswer(Document):
    """What was answered, and by whom."""

    option: int | None = None
    label: str | None = None
    text: str | None = None
    declined: bool = False
    answered_by: str


class AskedQuestion(Document):
    """One question of the call; without an answer it is open, or nobody answered it in time."""

    index: int
    header: str
    question: str
    options: list[QuestionOption]
    answer: GivenQuestionAnswer | None


class Question(Document):
    """The questions of one call, which waits until each of them has its answer."""

    id: str
    status: QuestionStatus
    run_id: str
    call_id: str
    questions: list[AskedQuestion]
    asked_at: Time
    expires_at: Time | None


class QuestionList(Document):
    """A page of questions, newest first."""

    items: list[Question]
    next_cursor: str | None


def question_document(question: QuestionRecord) -> Question:
    """How questions are shown: as they were asked, each with its answer."""
    card = question.card
    answers = {answer["index"]: _answer_document(answer) for answer in question.answers}
    return Question(
        id=question.id,
        status=question.status,
        run_id=question.run_id,
        call_id=question.call_id,
        questions=[
            AskedQuestion(**one | {"answer": answers.get(one["index"])})
            for one in card["questions"]
        ],
        asked_at=card["asked_at"],
        expires_at=card["expires_at"],
    )


def _answer_document(answer: dict[str, Any]) -> GivenQuestionAnswer:
    return GivenQuestionAnswer(**{name: answer[name] for name in answer if name != "index"})
