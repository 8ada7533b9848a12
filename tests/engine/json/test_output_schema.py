from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from app.engine.json.output_schema import CompiledSchema, failures, require_usable

OBJECT: dict[str, object] = {"type": "object"}


@dataclass(frozen=True)
class Schema:
    id: str
    schema: dict[str, object]
    message: str = ""


@pytest.mark.parametrize(
    "case",
    [
        Schema("empty", {}),
        Schema("local-reference", {"$defs": {"n": {"type": "integer"}}, "$ref": "#/$defs/n"}),
        Schema("own-id", {"$id": "https://example.org/s", "$ref": "#/$defs/n", "$defs": {"n": {}}}),
        Schema(
            "recursive-structure",
            {"properties": {"next": {"$ref": "#"}}, "required": ["value"]},
        ),
        Schema("word-that-looks-like-a-reference", {"properties": {"$ref": {"type": "string"}}}),
        Schema("boolean-part", {"properties": {"any": True}}),
    ],
    ids=lambda case: case.id,
)
def test_a_schema_complete_in_itself_is_usable(case: Schema) -> None:
    require_usable(case.schema)


@pytest.mark.parametrize(
    "case",
    [
        Schema("unknown-type", {"type": "text"}, "invalid at /type"),
        Schema("broken-pattern", {"pattern": "("}, "invalid at /pattern"),
        Schema("remote", {"$ref": "https://example.org/schema"}, "not part of the schema"),
        Schema("file", {"items": {"$ref": "other.json"}}, "not part of the schema"),
        Schema("dangling", {"$ref": "#/$defs/absent"}, "not part of the schema"),
        Schema("dynamic", {"$dynamicRef": "https://example.org/s"}, "not part of the schema"),
        Schema("endless", {"$ref": "#"}, "without end"),
    ],
    ids=lambda case: case.id,
)
def test_any_other_schema_is_refused(case: Schema) -> None:
    """agent-run.md 3, with_output_validation"""
    with pytest.raises(ValueError, match=case.message):
        require_usable(case.schema)


@dataclass(frozen=True)
class Case:
    id: str
    schema: dict[str, object] | None
    value: dict[str, object]
    missing: tuple[str, ...] = ()
    problems: tuple[str, ...] = field(default=())


COUNT: dict[str, object] = {"properties": {"count": {"type": "integer"}}}


@pytest.mark.parametrize(
    "case",
    [
        Case("no-schema", None, {"any": 1}),
        Case("good", COUNT, {"count": 1}),
        Case("wrong-type", COUNT, {"count": "1"}, (), ("/count: type",)),
        Case("missing-in-schema-order", {"required": ["b", "a"]}, {}, ("b", "a")),
        Case(
            "missing-and-wrong",
            {"required": ["b"], **COUNT},
            {"count": "1"},
            ("b",),
            ("/count: type",),
        ),
        Case(
            "required-deeper-down-is-a-problem",
            {"properties": {"a": {"required": ["b"]}}},
            {"a": {}},
            (),
            ("/a: required",),
        ),
        Case("required-in-a-branch", {"allOf": [{"required": ["a"]}]}, {}, (), ("/: required",)),
        Case(
            "pointer-is-escaped",
            {"properties": {"a/b~c": {"type": "null"}}},
            {"a/b~c": 1},
            (),
            ("/a~1b~0c: type",),
        ),
        Case("root", {"maxProperties": 0}, {"a": 1}, (), ("/: maxProperties",)),
        Case(
            "sorted-unique-at-most-ten",
            {"additionalProperties": {"type": "null", "allOf": [{"type": "null"}]}},
            {f"k{index:02}": 1 for index in range(12)},
            (),
            tuple(f"/k{index:02}: type" for index in range(10)),
        ),
    ],
    ids=lambda case: case.id,
)
def test_failures_are_named_by_pointer_and_keyword(case: Case) -> None:
    """A36, A188"""
    found = failures(case.schema, case.value)
    assert found == (case.missing, case.problems)
    assert found.any() is bool(case.missing or case.problems)


def test_a_value_too_deep_for_a_recursive_schema_fails_instead_of_raising() -> None:
    value: dict[str, object] = {}
    for _ in range(2000):
        value = {"next": value}
    found = failures({"properties": {"next": {"$ref": "#"}}}, value)
    assert found.problems == ("/: $ref",)


def test_a_list_where_the_schema_wants_one_is_a_list() -> None:
    schema: dict[str, object] = {"properties": {"a": {"type": "array", "items": OBJECT}}}
    assert not failures(schema, {"a": [{}]}).any()


@pytest.mark.parametrize(
    ("value", "pointer"),
    [({"count": 1}, None), ({"count": "1"}, "/count"), ({"a/b": 1}, "/a~1b"), ([], "/")],
)
def test_a_whole_answer_is_held_against_a_compiled_schema(
    value: object, pointer: str | None
) -> None:
    named = {"count": {"type": "integer"}, "a/b": {"type": "null"}}
    assert CompiledSchema({**OBJECT, "properties": named}).first_violation(value) == pointer


def test_a_value_too_deep_for_a_compiled_schema_fails_at_its_root() -> None:
    value: dict[str, object] = {}
    for _ in range(2000):
        value = {"next": value}
    schema = CompiledSchema({"properties": {"next": {"$ref": "#"}}})
    assert schema.first_violation(value) == "/"


def test_a_schema_that_is_none_does_not_compile() -> None:
    with pytest.raises(ValueError, match="invalid at /type"):
        CompiledSchema({"type": "text"})


RUNAWAY: dict[str, object] = {"properties": {"a": {"pattern": "^(a|aa)+$"}}}


def test_a_value_that_takes_too_long_to_check_fails_instead_of_hanging() -> None:
    value: dict[str, object] = {"a": "a" * 100 + "!"}
    assert failures(RUNAWAY, value).problems == ("/: too much to check",)
    assert CompiledSchema(RUNAWAY).first_violation(value) == "/"


def test_a_schema_that_takes_too_long_with_the_empty_object_is_refused() -> None:
    twice = {f"d{at}": {"allOf": [{"$ref": f"#/$defs/d{at + 1}"}] * 2} for at in range(40)}
    schema: dict[str, object] = {"$ref": "#/$defs/d0", "$defs": twice | {"d40": {}}}
    with pytest.raises(ValueError, match="pieces of work"):
        require_usable(schema)


def test_a_schema_beyond_64_kib_is_refused() -> None:
    with pytest.raises(ValueError, match="65536 bytes"):
        require_usable({"description": "x" * 65536})
