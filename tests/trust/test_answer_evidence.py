"""Questions and answers of a log, held against each other and against what the service signed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from app.trust.answer_evidence import AnswerEvidence
from app.trust.export import Finding, Report, verify_export
from tests.trust.answers import ANSWERED, ASKED, CALL, KID, stated
from tests.trust.logs import SERVICE, Row, lines, records


def evidence() -> AnswerEvidence:
    return AnswerEvidence("acme", "conv_1", {KID: SERVICE.public})


def asked() -> AnswerEvidence:
    """Evidence that has seen the question."""
    log = evidence()
    assert log.problem("question.asked", ASKED, CALL) is None
    return log


def test_a_question_and_its_answers_that_fit_are_sound() -> None:
    log = asked()
    assert log.problem("question.answered", ANSWERED, stated()) is None
    later = [{"index": 1, "text": "at noon"}]
    told = ANSWERED | {"answers": later, "answered_by": "bob"}
    assert log.problem("question.answered", told, stated(answers=later, answered_by="bob")) is None


def test_what_nobody_answered_is_sound() -> None:
    changed: dict[str, Any] = {"outcome": "auto_resolved", "answers": [], "answered_by": None}
    told = ANSWERED | changed
    assert asked().problem("question.answered", told, stated(**changed)) is None


def test_a_cancelled_question_needs_no_word_of_the_service_and_has_no_answers() -> None:
    cancelled = ANSWERED | {"outcome": "cancelled", "answers": [], "answered_by": None}
    assert asked().problem("question.answered", cancelled, None) is None
    told = cancelled | {"answers": [{"index": 0, "text": "yes"}]}
    assert asked().problem("question.answered", told, None) == "a cancelled question has no answers"


def test_other_events_are_none_of_its_business() -> None:
    assert evidence().problem("run.paused", {}, None) is None


@dataclass(frozen=True)
class Case:
    """Something about an answer that does not hold: in the event, or in what was signed."""

    id: str
    problem: str
    told: dict[str, Any] = field(default_factory=dict)
    signed: dict[str, Any] = field(default_factory=dict)


OTHER = "the signed answer is about another question"
UNTOLD = "the event tells other than what was signed"
UNSHOWN = "an answer is to a question, or by an option, that was not shown"


def given(**answer: Any) -> dict[str, Any]:
    return {"answers": [{"index": 0} | answer]}


CASES = [
    Case("another tenant", OTHER, signed={"tenant": "other"}),
    Case("another conversation", OTHER, signed={"conversation_id": "conv_2"}),
    Case("another run", OTHER, signed={"run_id": "run_2"}),
    Case("another question", OTHER, signed={"question_id": "ques_2"}),
    Case("another call", OTHER, signed={"call_id": "call_2_1_0"}),
    Case("another turn", OTHER, signed={"turn_id": "turn_2"}),
    Case("other arguments", OTHER, signed={"args_sha256": "b" * 64}),
    Case("another answer is told", UNTOLD, told=given(text="tomorrow")),
    Case("another person is told", UNTOLD, told={"answered_by": "bob"}),
    Case("another outcome is told", UNTOLD, told={"outcome": "auto_resolved"}),
    Case("another call is told", UNTOLD, told={"call_id": "call_9"}),
    *(
        Case(name, UNSHOWN, told=given(**answer), signed=given(**answer))
        for name, answer in {
            "no such question": {"index": 2, "text": "yes"},
            "no such option": {"option": 1, "label": "tomorrow"},
            "a negative option": {"option": -1, "label": "today"},
            "another label": {"option": 0, "label": "tomorrow"},
        }.items()
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_an_answer_that_does_not_fit_is_found(case: Case) -> None:
    found = asked().problem("question.answered", ANSWERED | case.told, stated(**case.signed))
    assert found == case.problem


def test_a_question_is_answered_once() -> None:
    log = asked()
    assert log.problem("question.answered", ANSWERED, stated()) is None
    again = log.problem("question.answered", ANSWERED, stated())
    assert again == "a question is answered that had its answer"


def test_an_answer_without_a_question_is_found() -> None:
    found = evidence().problem("question.answered", ANSWERED, stated())
    assert found == "no sound question.asked for this answer stands before it"


@pytest.mark.parametrize("private", [None, b"\xff", stated()[:-86] + b"A" * 86])
def test_bytes_that_the_service_did_not_sign_are_found(private: bytes | None) -> None:
    found = asked().problem("question.answered", ANSWERED, private) or ""
    assert found.startswith("the signed answer does not hold: ")


def test_a_question_is_asked_once_and_about_a_call() -> None:
    assert asked().problem("question.asked", ASKED, CALL) == "this question was asked before"
    found = evidence().problem("question.asked", ASKED, None)
    assert found == "the call that the question is about is not kept beside it"


def test_events_of_another_shape_are_found() -> None:
    assert "/id" in (evidence().problem("question.asked", ASKED | {"id": 1}, CALL) or "")
    told = ANSWERED | {"answers": "none"}
    assert "/answers" in (asked().problem("question.answered", told, stated()) or "")


def test_an_export_tells_answers_that_do_not_hold() -> None:
    rows = Row("question.asked", ASKED, CALL), Row("question.answered", ANSWERED, stated())
    sound = verify_export(lines(records(rows)))
    assert isinstance(sound, Report)
    assert sound.findings == []
    forged = Row("question.answered", ANSWERED | given(text="tomorrow"), stated())
    found = verify_export(lines(records((rows[0], forged))))
    assert isinstance(found, Report)
    assert found.findings == [Finding("seq 2", UNTOLD)]
