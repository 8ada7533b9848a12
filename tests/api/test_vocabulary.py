"""Named words: what stands in many places of the description has one schema (service.md 1)."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest

from app.api.app import openapi_document
from app.api.vocabulary import WORDS, with_names
from tests.api.test_description import nodes

VALUE = {"$ref": "#/components/schemas/JsonValue"}
FREE = {"type": "object", "additionalProperties": VALUE}
NAMED_FREE = {"$ref": "#/components/schemas/JsonObject"}


@pytest.fixture(scope="module")
def schemas() -> dict[str, Any]:
    named: dict[str, Any] = json.loads(openapi_document())["components"]["schemas"]
    return named


def test_every_set_of_words_that_stands_twice_has_a_name(schemas: dict[str, Any]) -> None:
    places = Counter(
        tuple(node["enum"])
        for _, node in nodes(schemas)
        if isinstance(node, dict) and isinstance(node.get("enum"), list)
    )
    assert [words for words, count in places.items() if count > 1] == []


def test_every_name_is_used(schemas: dict[str, Any]) -> None:
    used = {node["$ref"] for _, node in nodes(schemas) if isinstance(node, dict) and "$ref" in node}
    assert {f"#/components/schemas/{name}" for name in (*WORDS, "JsonObject")} <= used


def test_a_name_keeps_what_the_place_says_of_its_own() -> None:
    place = {"type": "string", "enum": ["approve", "deny"], "title": "Decision", "default": "deny"}
    assert with_names(place) == {"$ref": "#/components/schemas/Verdict", "default": "deny"}


def test_free_objects_have_a_name_at_any_depth() -> None:
    nullable = {"anyOf": [FREE, {"type": "null"}], "title": "Output Schema"}
    assert with_names({"properties": {"a": [nullable], "b": FREE}}) == {
        "properties": {
            "a": [{"anyOf": [NAMED_FREE, {"type": "null"}], "title": "Output Schema"}],
            "b": NAMED_FREE,
        }
    }


@pytest.mark.parametrize(
    "node",
    [
        {"type": "string", "enum": ["approve"]},
        {"type": "string", "enum": ["deny", "approve"]},
        FREE | {"properties": {"a": VALUE}},
        FREE | {"propertyNames": {"maxLength": 5}},
        {"type": "object"},
        {"properties": {"enum": {"type": "string"}}},
    ],
)
def test_what_says_more_or_less_than_a_name_stays(node: dict[str, Any]) -> None:
    assert with_names(node) == node
