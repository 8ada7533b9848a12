from __future__ import annotations

import copy
from dataclasses import dataclass
from operator import delitem, setitem
from typing import TYPE_CHECKING, Any

import pytest

from app.engine.json.text import (
    MAX_DEPTH,
    FrozenArray,
    FrozenObject,
    compact_json,
    freeze,
    freeze_object,
    kind_of,
    malformed_error,
    parse_json,
    thaw,
)

if TYPE_CHECKING:
    from collections.abc import Callable

VALUE: dict[str, object] = {"z": "é", "a": [1, None, True, 1.5, {"deep": []}]}


def nested(depth: int) -> object:
    value: object = 1
    for _ in range(depth):
        value = [value]
    return value


def test_a_frozen_value_equals_what_it_was_made_of_and_is_independent_of_it() -> None:
    source = {"a": [1]}
    frozen = freeze(source)
    source["a"].append(2)
    assert frozen == {"a": [1]}


def test_a_frozen_value_is_not_copied_again() -> None:
    frozen = freeze(VALUE)
    assert freeze(frozen) is frozen


@pytest.mark.parametrize(
    "change",
    [
        lambda frozen: setitem(frozen, "b", 1),
        lambda frozen: delitem(frozen, "a"),
        lambda frozen: frozen.__ior__({"b": 1}),
        lambda frozen: frozen.update(b=1),
        lambda frozen: frozen.clear(),
        lambda frozen: frozen.pop("a"),
        lambda frozen: frozen.popitem(),
        lambda frozen: frozen.setdefault("b", 1),
        lambda frozen: frozen["a"].append(1),
        lambda frozen: setitem(frozen["a"], 0, 1),
        lambda frozen: delitem(frozen["a"], 0),
        lambda frozen: frozen["a"].__iadd__([1]),
        lambda frozen: frozen["a"].__imul__(2),
        lambda frozen: frozen["a"].extend([1]),
        lambda frozen: frozen["a"].insert(0, 1),
        lambda frozen: frozen["a"].pop(),
        lambda frozen: frozen["a"].remove(1),
        lambda frozen: frozen["a"].reverse(),
        lambda frozen: frozen["a"].sort(),
        lambda frozen: frozen["a"].clear(),
    ],
)
def test_a_frozen_value_refuses_every_change(change: Callable[[Any], object]) -> None:
    """A204"""
    frozen = freeze({"a": [1]})
    with pytest.raises(TypeError, match="cannot be changed"):
        change(frozen)
    assert frozen == {"a": [1]}


def test_a_thawed_value_can_be_changed_and_the_frozen_one_stays() -> None:
    frozen = freeze(VALUE)
    thawed = thaw(frozen)
    thawed["a"][4]["deep"].append(1)
    assert frozen == VALUE


def test_a_frozen_value_can_be_copied() -> None:
    copied = copy.deepcopy(freeze(VALUE))
    assert copied == VALUE
    assert isinstance(copied, FrozenObject)


def test_a_frozen_value_is_written_like_a_plain_one() -> None:
    """A199"""
    assert compact_json(freeze(VALUE)) == '{"z":"é","a":[1,null,true,1.5,{"deep":[]}]}'


@dataclass(frozen=True)
class Refused:
    id: str
    value: object
    message: str


@pytest.mark.parametrize(
    "case",
    [
        Refused("nan", float("nan"), "finite"),
        Refused("infinity", [float("inf")], "finite"),
        Refused("huge-integer", 2**5000, "4096 bits"),
        Refused("lone-surrogate", "\ud800", "surrogates"),
        Refused("lone-surrogate-in-a-key", {"\ud800": 1}, "surrogates"),
        Refused("number-as-a-key", {1: 1}, "key of a JSON object, found number"),
        Refused("tuple", (1,), "found tuple"),
        Refused("too-deep", nested(MAX_DEPTH + 1), "nested deeper"),
    ],
    ids=lambda case: case.id,
)
def test_what_json_cannot_hold_is_refused(case: Refused) -> None:
    with pytest.raises(ValueError, match=case.message):
        freeze(case.value)


def test_the_deepest_value_is_accepted() -> None:
    assert freeze(nested(MAX_DEPTH)) == nested(MAX_DEPTH)


def test_only_an_object_is_an_object() -> None:
    assert freeze_object({"a": 1}) == FrozenObject(a=1)
    with pytest.raises(ValueError, match="expected a JSON object, found array"):
        freeze_object([1])


def test_nan_is_not_written() -> None:
    with pytest.raises(ValueError, match="Out of range"):
        compact_json(float("nan"))


def test_text_is_parsed_into_frozen_values() -> None:
    parsed = parse_json('{"a": [1]}')
    assert isinstance(parsed, FrozenObject)
    assert isinstance(parsed["a"], FrozenArray)


def test_text_nested_without_end_is_refused() -> None:
    with pytest.raises(ValueError, match="nested deeper"):
        parse_json("[" * 100_000 + "]" * 100_000)


@dataclass(frozen=True)
class Text:
    id: str
    text: str
    error: str | None


@pytest.mark.parametrize(
    "case",
    [
        Text("object", '{"x": 1}', None),
        Text("broken", "{", "invalid JSON"),
        Text("nan", '{"x": NaN}', "invalid JSON"),
        Text("infinity", "Infinity", "invalid JSON"),
        Text("number-beyond-floats", '{"x": 1e400}', "invalid JSON"),
        Text("array", "[1]", "expected a JSON object, found array"),
        Text("string", '"complete"', "expected a JSON object, found string"),
        Text("integer", "1", "expected a JSON object, found number"),
        Text("fraction", "1.5", "expected a JSON object, found number"),
        Text("boolean", "true", "expected a JSON object, found boolean"),
        Text("null", "null", "expected a JSON object, found null"),
    ],
    ids=lambda case: case.id,
)
def test_the_error_of_malformed_arguments_names_what_was_found(case: Text) -> None:
    """A172, A199"""
    assert malformed_error(case.text) == case.error


def test_a_kind_outside_json_is_named_by_its_type() -> None:
    assert kind_of({}) == "object"
    assert kind_of(b"") == "bytes"
