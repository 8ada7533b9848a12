"""The answer in `run.completed`: its members, and the payload to the byte (C53, C55)."""

from __future__ import annotations

import orjson

from app.log.catalogue import parse
from app.log.payload import UsageTotals
from app.log.runs import Envelope, RunCompleted

EXACT = '{ "z" : 1.0,\n"a":[1e3] }'
PLAIN = Envelope(answer="sent", finish_reason="goal", tool_calls_seen=1)
FORMED = Envelope(
    answer=EXACT, finish_reason="goal", tool_calls_seen=0, answer_payload={"z": 1.0, "a": [1e3]}
)


def completed(answer: Envelope) -> RunCompleted:
    return RunCompleted(answer=answer, ended_by="answer", usage=UsageTotals(), steps=1)


def test_c53_without_a_schema_there_are_three_members() -> None:
    assert PLAIN.text() == b'{"answer":"sent","finish_reason":"goal","tool_calls_seen":1}'
    assert list(completed(PLAIN).wire()["answer"]) == ["answer", "finish_reason", "tool_calls_seen"]


def test_c55_a_payload_stands_in_the_event_as_it_was_given() -> None:
    body = orjson.dumps(completed(FORMED).wire())
    assert (
        b'"finish_reason":"goal","tool_calls_seen":0,"answer_payload":' + EXACT.encode() + b"}"
    ) in body


def test_c55_an_event_that_is_read_back_gives_the_same_text() -> None:
    stored = orjson.loads(orjson.dumps(completed(FORMED).wire()))
    again = parse("run.completed", stored)
    assert isinstance(again, RunCompleted)
    assert again.answer.text() == FORMED.text()
    assert again == completed(FORMED)


def test_a_payload_of_null_is_a_payload() -> None:
    null = Envelope(answer="null", finish_reason="goal", tool_calls_seen=0, answer_payload=None)
    assert null.text().endswith(b'"answer_payload":null}')
