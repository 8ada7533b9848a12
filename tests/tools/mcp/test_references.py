"""Schemas that stand for more than they are, and those that only look like it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from app.tools.mcp.references import Unbounded, require_bounded


@dataclass(frozen=True)
class Case:
    id: str
    schema: dict[str, Any]


def doubled(levels: int) -> dict[str, Any]:
    """Each level refers twice to the one below: 2^levels parts in a few hundred bytes."""
    defs: dict[str, Any] = {"a0": {"type": "string"}}
    for level in range(1, levels + 1):
        below = {"$ref": f"#/$defs/a{level - 1}"}
        defs[f"a{level}"] = {"allOf": [below, dict(below)]}
    return {"type": "object", "$defs": defs, "properties": {"a": {"$ref": f"#/$defs/a{levels}"}}}


def hidden(reference: str, decoy: str) -> dict[str, Any]:
    """A part `ab` that refers to itself by `reference`, beside one that only looks like it."""
    return {decoy: {}, "ab": {"not": {"$ref": reference}}}


REFUSED = [
    Case("doubled and doubled", doubled(30)),
    Case("itself", {"type": "object", "properties": {"a": {"$ref": "#"}}}),
    Case("itself at once", {"$ref": "#"}),
    Case(
        "each other",
        {"$defs": {"a": {"not": {"$ref": "#/$defs/b"}}, "b": {"not": {"$ref": "#/$defs/a"}}}},
    ),
    Case("another document", {"properties": {"a": {"$ref": "https://elsewhere.example/schema"}}}),
    Case("a part by a name", {"properties": {"a": {"$ref": "#name"}}}),
    Case("nothing", {"properties": {"a": {"$ref": "#/$defs/none"}}}),
    Case("itself, percent-encoded", {"$defs": hidden("#/$defs/%61b", "%61b")}),
    Case("itself, with an empty name beside it", {"": {}, "not": {"$ref": ""}}),
    Case("itself by its name", {"$id": "x:y", "": {}, "not": {"$ref": "x:y"}}),
    Case("the last of a list", {"allOf": [{}], "not": {"$ref": "#/allOf/-1"}}),
    Case("a document within", {"properties": {"a": {"$id": "https://x.example/", "$ref": "#/b"}}}),
    Case("a name", {"properties": {"a": {"$anchor": "name"}}}),
    Case("what is around", {"properties": {"a": {"$dynamicRef": "#a"}}}),
    Case("patterns for names", {"patternProperties": {"(a+)+$": {}}}),
]

SOUND = [
    Case("nothing at all", {"type": "object"}),
    Case("a part twice", doubled(3)),
    Case("a part of a list", {"allOf": [{}], "properties": {"a": {"$ref": "#/allOf/0"}}}),
    Case(
        "a part by its percent-encoded name",
        {"$defs": {"ö": {}}, "not": {"$ref": "#/$defs/%C3%B6"}},
    ),
    Case("a name of its own", {"$id": "https://x.example/", "type": "object"}),
    Case(
        "a part with a slash in its name",
        {"$defs": {"a/b~": {}}, "properties": {"a": {"$ref": "#/$defs/a~1b~0"}}},
    ),
]


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: case.id)
def test_a_schema_that_cannot_be_bounded_is_refused(case: Case) -> None:
    with pytest.raises(Unbounded):
        require_bounded(case.schema)


@pytest.mark.parametrize("case", SOUND, ids=lambda case: case.id)
def test_a_bounded_schema_passes(case: Case) -> None:
    require_bounded(case.schema)
