"""Which of the service's own statements a turn may use: those about this question of this run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson
import pytest
from typing_extensions import override

from app.log.envelope import Event
from app.policy.taint import Trust
from app.service.ports.keys import ServiceKeys
from app.service.questions.answers import verified_answers
from app.service.statements import Statements
from app.trust.keys import derive_signing_key
from app.trust.statement import StatementKind
from tests.support.log.records import run_record
from tests.support.log.seals import SERVICE

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from app.turn.options import VerifiedAnswer

SAID: dict[str, Any] = {
    "v": 1,
    "tenant": "acme",
    "conversation_id": "conv_1",
    "run_id": "run_1",
    "turn_id": "turn_1",
    "call_id": "call_1_1_0",
    "question_id": "ques_1",
    "args_sha256": "a" * 64,
    "outcome": "answered",
    "answers": [{"index": 0, "option": 1, "label": "blue"}],
    "answered_by": "alice",
    "is_principals_own": True,
}


class NoOthers(ServiceKeys):
    """No other process has ever signed anything."""

    @override
    async def add(self, kid: str, public_jwk: Mapping[str, str], *, now: datetime) -> None:
        return None

    @override
    async def all(self) -> dict[str, dict[str, str]]:
        return {}


OURS = Statements(SERVICE, NoOthers())


def event(event_type: str, data: dict[str, Any], private: bytes | None = None) -> Event:
    body = orjson.dumps({"data": data, "at": "2026-11-29T12:00:00.000Z"})
    return Event("conv_1", 9, "run_1", "turn_1", 1, event_type, Trust.UNSPECIFIED, body, private)


def answered(
    kind: StatementKind = StatementKind.QUESTION_ANSWER, by: Statements = OURS, **changed: Any
) -> Event:
    signed = by.sign(kind, SAID | changed)
    return event("question.answered", {"question_id": "ques_1"}, signed.encode())


async def found(*events: Event) -> tuple[VerifiedAnswer, ...]:
    return await verified_answers(OURS, run_record(), events)


async def test_a_statement_about_this_question_answers_it() -> None:
    (answer,) = await found(answered())
    assert (answer.turn_id, answer.call_id, answer.index) == ("turn_1", "call_1_1_0", 0)
    assert (answer.selected_index, answer.selected_label) == (1, "blue")
    assert (answer.answered_by, answer.is_principals_own) == ("alice", True)


@pytest.mark.parametrize("field", ["tenant", "conversation_id", "run_id", "question_id"])
async def test_t68_a_statement_about_another_place_answers_nothing(field: str) -> None:
    """Signed by the service itself, and moved."""
    elsewhere: dict[str, Any] = {field: "another"}
    assert await found(answered(**elsewhere)) == ()


async def test_neither_another_kind_nor_another_key_answers() -> None:
    stranger = Statements(derive_signing_key(b"theirs".ljust(40, b".")), NoOthers())
    assert await found(answered(StatementKind.DISPATCH_MUTATION)) == ()
    assert await found(answered(by=stranger)) == ()


async def test_of_two_answers_to_one_question_the_later_counts() -> None:
    later = answered(answers=[{"index": 0, "option": 0, "label": "red"}])
    (answer,) = await found(answered(), later)
    assert answer.selected_label == "red"


async def test_t132_what_nobody_answered_in_time_fills_only_what_is_open() -> None:
    asked = event("question.asked", {"id": "ques_1", "questions": [{"index": 0}, {"index": 1}]})
    expired = answered(outcome="auto_resolved", answers=[], answered_by=None)
    first, second = await found(asked, answered(), expired)
    assert (first.outcome, first.answered_by) == ("answered", "alice")
    assert (second.index, second.outcome, second.answered_by) == (1, "auto_resolved", "")
