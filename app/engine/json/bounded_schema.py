"""JSON Schemas of people who are not us, held against values of models: in bounded time.

A pattern may backtrack for ever, references may stand for more schema than anybody could evaluate.
So every keyword costs work, patterns have a limit of their own, and a check that needs too much is
given up on; whoever asks must fail closed. No schema is fetched and no format asserted, and every
part is read as 2020-12, whatever dialect it names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sized
from typing import TYPE_CHECKING, Any, Final

from jsonschema import Draft202012Validator, FormatChecker
from jsonschema.exceptions import ValidationError
from jsonschema.validators import extend
from referencing import Registry

from app.engine.json.patterns import PATTERN_LIMIT_S, PatternGivenUp, occurs
from app.engine.json.text import compact_json

if TYPE_CHECKING:
    from jsonschema.protocols import Validator

Keyword = Callable[[Any, Any, Any, Mapping[str, Any]], Iterable[ValidationError] | None]

# A keyword is one piece of work, and so are eight members of what it says or looks at. Finding what
# a reference means takes longer.
MAX_WORK: Final = 100_000
_MEMBERS_A_PIECE: Final = 8
_PATTERN_WORK: Final = 50
_LOOKUP_WORK: Final = {"$ref": 10, "$dynamicRef": 10}


class SchemaGivenUp(Exception):
    """The check needs too much time; the message says which part of it."""


class BoundedSchema:
    """A sound schema, compiled. Raises ValueError for one that cannot be bounded."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        part = _Part()
        plain = part.of(schema)
        if {"unevaluatedProperties", "patternProperties"} <= part.names:
            raise ValueError("unevaluatedProperties beside patternProperties is not supported")
        self._validator = _Counting(plain, registry=Registry())

    def errors(self, value: Any) -> Iterator[ValidationError]:
        """What fails the schema. Raises SchemaGivenUp, and RecursionError for endless reference."""
        return self._validator.evolve(format_checker=_Work()).iter_errors(value)


class _Work(FormatChecker):
    """What one check has cost so far.

    It travels as the checker of formats, of which it knows none, for that is the one thing that a
    validator hands on to those of its parts.
    """

    def __init__(self) -> None:
        super().__init__(formats=())
        self._left = MAX_WORK
        self._patterns = 0

    def spend(self, pieces: int) -> None:
        self._left -= pieces
        if self._left < 0:
            raise SchemaGivenUp(f"more than {MAX_WORK} pieces of work")

    def finds(self, pattern: str, text: str) -> bool:
        self.spend(_PATTERN_WORK)
        # Each gets less time than the one before, or many would get what one does not.
        self._patterns += 1
        try:
            return occurs(pattern, text, limit_s=PATTERN_LIMIT_S / self._patterns)
        except PatternGivenUp as error:
            raise SchemaGivenUp(f"{pattern!r}: {error}") from error


class _Part:
    """Copies a schema without what would have its parts read as another dialect's."""

    def __init__(self) -> None:
        self.names: set[str] = set()

    def of(self, part: Any) -> Any:
        if isinstance(part, Mapping):
            self.names |= part.keys()
            return {
                name: self.of(inner)
                for name, inner in part.items()
                if not (name == "$schema" and isinstance(inner, str))
            }
        return [self.of(inner) for inner in part] if isinstance(part, list) else part


def _counted(check: Keyword, work: int) -> Keyword:
    def counted(
        validator: Any, value: Any, instance: Any, schema: Mapping[str, Any]
    ) -> Iterable[ValidationError] | None:
        pieces = (_members(value) + _members(instance)) // _MEMBERS_A_PIECE
        validator.format_checker.spend(work + pieces)
        return check(validator, value, instance, schema)

    return counted


def _members(value: object) -> int:
    """What it costs to go through the value once."""
    return len(value) if isinstance(value, Sized) and not isinstance(value, str) else 0


def _pattern(
    validator: Any, pattern: str, instance: Any, _schema: Mapping[str, Any]
) -> Iterator[ValidationError]:
    if isinstance(instance, str) and not validator.format_checker.finds(pattern, instance):
        yield ValidationError(f"{instance!r} does not match {pattern!r}")


def _pattern_properties(
    validator: Any, patterns: Mapping[str, Any], instance: Any, _schema: Mapping[str, Any]
) -> Iterator[ValidationError]:
    if not isinstance(instance, dict):
        return
    for pattern, part in patterns.items():
        for name, member in instance.items():
            if validator.format_checker.finds(pattern, name):
                yield from validator.descend(member, part, path=name, schema_path=pattern)


def _additional_properties(
    validator: Any, allowed: Any, instance: Any, schema: Mapping[str, Any]
) -> Iterator[ValidationError]:
    patterns = schema.get("patternProperties", {})
    if isinstance(instance, dict):
        finds = validator.format_checker.finds
        instance = {
            name: member
            for name, member in instance.items()
            if not any(finds(pattern, name) for pattern in patterns)
        }
    plain = {name: value for name, value in schema.items() if name != "patternProperties"}
    yield from _KEYWORDS["additionalProperties"](validator, allowed, instance, plain) or ()


def _unique_items(
    _validator: Any, wanted: bool, instance: Any, _schema: Mapping[str, Any]
) -> Iterator[ValidationError]:
    if not wanted or not isinstance(instance, list):
        return
    if len({compact_json(_normal(item)) for item in instance}) < len(instance):
        yield ValidationError(f"{instance!r} has non-unique elements")


def _normal(item: Any) -> Any:
    """The item with equal members in equal order, and equal numbers written equally."""
    if isinstance(item, dict):
        return {name: _normal(item[name]) for name in sorted(item)}
    if isinstance(item, list):
        return [_normal(member) for member in item]
    return int(item) if isinstance(item, float) and item.is_integer() else item


# The function comes without types.
_extend: Callable[..., type[Validator]] = extend
_KEYWORDS: Final[dict[str, Keyword]] = dict(Draft202012Validator.VALIDATORS)
_OURS: Final[dict[str, Keyword]] = {
    "pattern": _pattern,
    "patternProperties": _pattern_properties,
    "additionalProperties": _additional_properties,
    "uniqueItems": _unique_items,
}
_Counting: Final = _extend(
    Draft202012Validator,
    {
        name: _counted(check, _LOOKUP_WORK.get(name, 1))
        for name, check in (_KEYWORDS | _OURS).items()
    },
)
