"""Checks against strangers' schemas end, and say what JSON Schema 2020-12 says until then."""

from __future__ import annotations

from time import perf_counter
from typing import Any

import pytest

from app.engine.json.bounded_schema import BoundedSchema, SchemaGivenUp

CATASTROPHIC = "^(a|aa)+$"
BAIT = "a" * 100 + "!"


def failing(schema: dict[str, Any], value: Any) -> list[str]:
    return [str(error.validator) for error in BoundedSchema(schema).errors(value)]


@pytest.mark.parametrize(
    ("schema", "value", "fails"),
    [
        ({"pattern": "^a+$"}, "aa", []),
        ({"pattern": "^a+$"}, "ab", ["pattern"]),
        ({"pattern": "^a+$"}, 7, []),
        ({"patternProperties": {"^x": {"type": "integer"}}}, {"x1": 1, "y": "1"}, []),
        ({"patternProperties": {"^x": {"type": "integer"}}}, {"x1": "1"}, ["type"]),
        ({"patternProperties": {"^x": False}}, [], []),
        ({"additionalProperties": False, "properties": {"a": {}}}, {"a": 1}, []),
        ({"additionalProperties": False}, {"a": 1}, ["additionalProperties"]),
        ({"additionalProperties": False}, ["a"], []),
        ({"additionalProperties": False, "patternProperties": {"^x": {}}}, {"x1": 1}, []),
        (
            {"additionalProperties": {"type": "null"}, "patternProperties": {"^x": {}}},
            {"x1": 1, "y": 1},
            ["type"],
        ),
        ({"uniqueItems": True}, [1, True, "1", {"a": 1, "b": 2}], []),
        ({"uniqueItems": True}, [{"a": [1.0], "b": 2}, {"b": 2, "a": [1]}], ["uniqueItems"]),
        ({"uniqueItems": True}, [1, 1.0], ["uniqueItems"]),
        ({"uniqueItems": False}, [1, 1], []),
        ({"uniqueItems": True}, "aa", []),
        ({"format": "date"}, "no date", []),
        ({"$schema": "https://json-schema.org/draft/2020-12/schema", "items": False}, [], []),
    ],
)
def test_what_fails_is_what_the_standard_says(
    schema: dict[str, Any], value: Any, fails: list[str]
) -> None:
    assert failing(schema, value) == fails


def doubling(times: int) -> dict[str, Any]:
    """Each definition refers to the next one twice."""
    twice = {f"d{at}": {"allOf": [{"$ref": f"#/$defs/d{at + 1}"}] * 2} for at in range(times)}
    return {"$ref": "#/$defs/d0", "$defs": {**twice, f"d{times}": {}}}


def nested(depth: int) -> dict[str, Any]:
    return {} if depth == 0 else {"next": nested(depth - 1)}


OLD = "http://json-schema.org/draft-07/schema#"
GIVEN_UP: list[tuple[dict[str, Any], Any]] = [
    ({"pattern": CATASTROPHIC}, BAIT),
    ({"patternProperties": {CATASTROPHIC: {}}}, {BAIT: 1}),
    ({"additionalProperties": False, "patternProperties": {CATASTROPHIC: {}}}, {BAIT: 1}),
    ({"propertyNames": {"pattern": CATASTROPHIC}}, {BAIT: 1}),
    ({"items": {"$schema": OLD, "pattern": CATASTROPHIC}}, [BAIT]),
    ({"items": {"pattern": "^(?:a?){9}b"}}, ["a" * 30 + str(at) for at in range(5000)]),
    ({"pattern": "a{100000000}"}, "a"),
    (doubling(40), {}),
    ({"properties": {"next": {"allOf": [{"$ref": "#"}, {"$ref": "#"}]}}}, nested(40)),
    ({"items": {"enum": [*range(5000)]}}, [0] * 5000),
    ({"allOf": [{"additionalProperties": True}] * 5000}, {str(at): at for at in range(5000)}),
]


@pytest.mark.parametrize(("schema", "value"), GIVEN_UP, ids=range(len(GIVEN_UP)))
def test_a_check_without_bound_is_given_up(schema: dict[str, Any], value: Any) -> None:
    began = perf_counter()
    with pytest.raises(SchemaGivenUp):
        failing(schema, value)
    assert perf_counter() - began < 10


def test_a_thousand_items_of_many_members_are_checked() -> None:
    item = {name: {"type": "string", "minLength": 1} for name in "abcdefgh"}
    schema = {"items": {"type": "object", "properties": item, "required": [*"abcdefgh"]}}
    assert failing(schema, [dict.fromkeys("abcdefgh", "x")] * 1000) == []


def test_names_by_pattern_cannot_be_told_from_unevaluated_ones() -> None:
    schema = {"unevaluatedProperties": False, "allOf": [{"patternProperties": {"x": {}}}]}
    with pytest.raises(ValueError, match="not supported"):
        BoundedSchema(schema)
