"""The answer as text, and the envelope around it (run-context.md 3.2, 3.8): C45 to C55."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from typing import Any

import pytest
from pydantic import BaseModel

from app.engine.finish import Finish, FinishReason
from app.engine.json.output_schema import CompiledSchema
from app.runctx.answer import (
    AnswerEnvelope,
    CallFate,
    OutputInvalid,
    Trajectory,
    extract_assistant_answer,
    finish_answer_envelope,
)

SCHEMA = CompiledSchema(
    {"type": "object", "properties": {"total": {"type": "integer"}}, "required": ["total"]}
)
GOAL, CANCELLED = FinishReason.GOAL, FinishReason.CANCELLED


@dataclass(frozen=True)
class Point:
    x: int
    y: tuple[int, ...]


class Shape(BaseModel):
    name: str
    at: date


class Total(BaseModel):
    total: int
    at: date


@dataclass
class Sum:
    total: int
    of: object


@dataclass(slots=True)
class Unset:
    here: int = field(init=False)
    there: int = 2


LOOP: list[Any] = []
LOOP.append(LOOP)
DEEP: list[Any] = []
for _ in range(70):
    DEEP = [DEEP]


def text_of(payload: object, reason: FinishReason = GOAL) -> str:
    return extract_assistant_answer(Finish(reason, payload))


def goal(payload: object) -> AnswerEnvelope:
    return finish_answer_envelope(Finish(GOAL, payload), schema=SCHEMA)


@pytest.mark.parametrize(
    ("payload", "text"),
    [
        ("plain", "plain"),
        ("", ""),
        ({"answer": "x", "n": 1}, "x"),
        ({"answer": 42}, '{"answer":42}'),
        ({"b": 2, "a": 1}, '{"a":1,"b":2}'),
        (None, "goal"),
        (7, "7"),
        (True, "true"),
        (1.5, "1.5"),
        ("</é", "</é"),
        (["</é"], '["</é"]'),
        (Point(1, (2, 3)), '{"x":1,"y":[2,3]}'),
        (Shape(name="a", at=date(2026, 11, 29)), '{"at":"2026-11-29","name":"a"}'),
        (datetime(2026, 11, 29, 12, tzinfo=UTC), '"2026-11-29T12:00:00+00:00"'),
        ({1: "a"}, '{"1":"a"}'),
        ({None: "a", True: "b", 2.5: "c"}, '{"2.5":"c","True":"b","null":"a"}'),
        ({object(): 1}, '{"{\\"unserializable\\":\\"object\\"}":1}'),
        ({(1, object()): 1}, '{"[1,{\\"unserializable\\":\\"object\\"}]":1}'),
        ([10**5000], '[{"unserializable":"int"}]'),
        ({10**5000: 1}, '{"{\\"unserializable\\":\\"int\\"}":1}'),
        ({"b", "a"}, '["a","b"]'),
        ({"n": float("nan"), "i": float("-inf")}, '{"i":"-Infinity","n":"NaN"}'),
        ([float("inf")], '["Infinity"]'),
        (["\ud800"], '["\ufffd"]'),
        (LOOP, '[{"unserializable":"list"}]'),
        ([object()], '[{"unserializable":"object"}]'),
        (Point, '{"unserializable":"type"}'),
        (Unset(), '{"there":2}'),
    ],
)
def test_c45_c46_c47_c49_whatever_it_came_to_has_a_text(payload: object, text: str) -> None:
    assert text_of(payload) == text


def test_c47_without_a_payload_the_reason_is_the_text() -> None:
    assert text_of(None, CANCELLED) == "cancelled"


def test_what_is_nested_too_deep_is_cut_off_with_its_type() -> None:
    assert text_of(DEEP) == "[" * 64 + '{"unserializable":"list"}' + "]" * 64


def test_c48_the_same_mapping_has_the_same_text_in_another_process() -> None:
    script = (
        "from app.engine.finish import Finish, FinishReason\n"
        "from app.runctx.answer import extract_assistant_answer\n"
        "print(extract_assistant_answer(Finish(FinishReason.GOAL, {'a': {'y', 'x'}, 'b': 2})))"
    )
    other = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True)
    assert other.stdout.decode().strip() == text_of({"b": 2, "a": {"x", "y"}})


@pytest.mark.parametrize(
    "payload", ['{ "total" : 3,\n "also":[1.0, 2] }', b'{"z":1,"total":3}', '{"total":3}\n']
)
def test_c50_the_payload_and_the_answer_are_the_exact_text(payload: str | bytes) -> None:
    exact = payload.encode() if isinstance(payload, str) else payload
    assert goal(payload) == AnswerEnvelope(exact.decode(), GOAL, 0, exact)


def test_c55_a_mapping_is_written_compact_and_sorted() -> None:
    assert goal({"total": 3, "é": {"b": 1, "a": (2,)}}).answer_payload == (
        '{"total":3,"é":{"a":[2],"b":1}}'.encode()
    )


@pytest.mark.parametrize(
    ("payload", "written"),
    [
        (Total(total=3, at=date(2026, 11, 29)), b'{"at":"2026-11-29","total":3}'),
        (Sum(3, [Point(1, (2,))]), b'{"of":[{"x":1,"y":[2]}],"total":3}'),
        ({"total": 3, "of": Sum(1, None)}, b'{"of":{"of":null,"total":1},"total":3}'),
        (
            Sum(3, Total(total=1, at=date(2026, 11, 29))),
            b'{"of":{"at":"2026-11-29","total":1},"total":3}',
        ),
    ],
)
def test_c55_models_and_data_classes_are_written_as_mappings_wherever_they_stand(
    payload: object, written: bytes
) -> None:
    assert goal(payload).answer_payload == written


@pytest.mark.parametrize(
    ("payload", "pointer"),
    [
        ('{"total":"secret"}', "/total"),
        ('{"secret":1}', "/"),
        ("secret", "/"),
        ('{"total":NaN}', "/total"),
        ('{"total":1,"total":2}', "/total"),
        ('{"total":1,"secret":1e999}', "/secret"),
        ('{"total":' + "9" * 400 + "}", "/total"),
        ('{"total":1,"s":"\ud800"}', "/"),
        (b'{"total":1,"s":"\xff"}', "/"),
        (None, "/"),
        ({"total": float("nan")}, "/"),
        ({"total": object()}, "/"),
        (Shape(name="secret", at=date(2026, 11, 29)), "/"),
    ],
)
def test_c51_what_does_not_hold_is_refused_by_place_and_never_by_content(
    payload: object, pointer: str
) -> None:
    with pytest.raises(OutputInvalid) as refused:
        goal(payload)
    assert (refused.value.pointer, refused.value.code) == (pointer, "output_invalid")
    assert "999" not in refused.value.message
    assert "secret" not in refused.value.message.removesuffix(pointer)


def test_c52_nothing_is_held_against_a_schema_that_is_no_goal() -> None:
    finish = Finish(CANCELLED, "not json")
    assert finish_answer_envelope(finish, schema=SCHEMA) == AnswerEnvelope("not json", CANCELLED, 0)


def test_c54_started_executions_are_counted_and_nothing_else() -> None:
    step = (*[CallFate.EXECUTED] * 3, CallFate.DELEGATED, CallFate.NOT_RUN)
    finish = Finish(GOAL, "x")
    assert finish_answer_envelope(finish).tool_calls_seen == 0
    assert finish_answer_envelope(finish, trajectory=Trajectory((step,))).tool_calls_seen == 3
    both = Trajectory((step, (CallFate.OUTPUT, CallFate.ASKED, CallFate.EXECUTED)))
    assert finish_answer_envelope(finish, trajectory=both).tool_calls_seen == 4
