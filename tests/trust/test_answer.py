"""The service's statement of what people answered: what is signed, and what passes for one."""

from __future__ import annotations

import json

from app.trust.answer import AnswerStatement, match_answer, verify_answer
from app.trust.base64url import decode
from app.trust.decision import Malformed, read_decision
from app.trust.refusal import Refused
from app.trust.statement import StatementKind
from tests.trust.answers import KID, STATEMENT, stated
from tests.trust.decisions import APPROVE, signed
from tests.trust.logs import SERVICE

KEYS = {KID: SERVICE.public}


def statement() -> AnswerStatement:
    found = match_answer(STATEMENT)
    assert isinstance(found, AnswerStatement)
    return found


def test_what_was_signed_is_read_back() -> None:
    found = verify_answer(stated().decode(), keys=KEYS)
    assert found == statement()
    assert statement().members() == STATEMENT


def test_an_answer_has_only_the_members_it_was_given_with() -> None:
    told = [{"index": 0, "declined": True}, {"index": 1, "text": "at noon"}]
    found = match_answer(STATEMENT | {"answers": told})
    assert isinstance(found, AnswerStatement)
    assert found.told() == told


def test_the_statement_names_its_kind_in_the_header_and_in_what_is_signed() -> None:
    header, payload, _ = stated().decode().split(".")
    assert json.loads(decode(header) or b"")["typ"] == "turngate-question-answer+jws"
    assert json.loads(decode(payload) or b"")["typ"] == "turngate.question-answer"


def test_t68_an_answer_is_no_decision_and_a_decision_no_answer() -> None:
    assert isinstance(read_decision(stated().decode()), Malformed)
    assert isinstance(verify_answer(signed(APPROVE), keys=KEYS), Refused)


def test_a_statement_of_another_kind_is_no_answer() -> None:
    other = stated(StatementKind.DISPATCH_MUTATION).decode()
    assert isinstance(verify_answer(other, keys=KEYS), Refused)


def test_a_statement_under_an_unknown_key_is_refused() -> None:
    assert isinstance(verify_answer(stated().decode(), keys={}), Refused)


def test_members_of_another_shape_are_refused() -> None:
    found = verify_answer(stated(outcome="approved").decode(), keys=KEYS)
    assert isinstance(found, Refused)
    assert "/outcome" in found.reason
