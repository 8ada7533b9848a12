"""The JSON Schema of a run's output (2020-12): whether it is usable, and what fails it.

No schema is ever fetched: a `$ref` that does not resolve within the schema is refused when the run
is built, so validation later cannot reach out or fail; nor can it take for ever. `failures` is what
a model is told about its output; who holds a whole answer against a `CompiledSchema` learns where
it fails, and no more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from jsonschema import Draft202012Validator, FormatChecker
from jsonschema.exceptions import SchemaError, ValidationError
from referencing import Registry
from referencing.exceptions import Unresolvable
from referencing.jsonschema import DRAFT202012

from app.engine.json.bounded_schema import BoundedSchema, SchemaGivenUp
from app.engine.json.patterns import compiled
from app.engine.json.pointer import pointer_to
from app.engine.json.text import compact_json

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_PROBLEMS: Final = 10
MAX_SCHEMA_BYTES: Final = 64 * 1024
_REFERENCES: Final = frozenset({"$ref", "$dynamicRef"})


class Failures(NamedTuple):
    """What is wrong with an output; falsy members mean nothing is."""

    missing: tuple[str, ...]
    problems: tuple[str, ...]

    def any(self) -> bool:
        """Whether there is anything wrong."""
        return bool(self.missing or self.problems)


_PATTERNS: Final = FormatChecker(formats=())


@_PATTERNS.checks("regex", raises=ValueError)
def _is_pattern(value: object) -> bool:
    return not isinstance(value, str) or compiled(value) is not None


def require_usable(schema: Mapping[str, object]) -> None:
    """Raise `ValueError` if the schema is invalid, refers outside itself, or is without bound."""
    if len(compact_json(schema).encode()) > MAX_SCHEMA_BYTES:
        raise ValueError(f"output schema: has at most {MAX_SCHEMA_BYTES} bytes")
    try:
        Draft202012Validator.check_schema(schema, _PATTERNS)
        _require_resolvable(schema)
        any(BoundedSchema(schema).errors({}))
    except SchemaError as error:
        raise ValueError(f"output schema: invalid at {_pointer(error)}") from error
    except Unresolvable as error:
        raise ValueError(f"output schema: {error.ref!r} is not part of the schema") from error
    except RecursionError as error:
        raise ValueError("output schema: a reference refers to itself without end") from error
    except SchemaGivenUp as error:
        raise ValueError(f"output schema: {error}") from error


class CompiledSchema:
    """A schema that is usable, compiled once. Raises `ValueError` for one that is not."""

    def __init__(self, schema: Mapping[str, object]) -> None:
        require_usable(schema)
        self._schema = BoundedSchema(schema)

    def first_violation(self, value: object) -> str | None:
        """The JSON pointer of the first thing in the value that fails the schema."""
        try:
            error = next(self._schema.errors(value), None)
        except (RecursionError, SchemaGivenUp):
            return "/"
        return None if error is None else _pointer(error)


def failures(schema: Mapping[str, object] | None, value: Mapping[str, object]) -> Failures:
    """What keeps an object from passing the schema (agent-run.md 7); every object passes None."""
    if schema is None:
        return Failures((), ())
    try:
        errors = list(BoundedSchema(schema).errors(value))
    except RecursionError:
        # Nesting is bounded, so only a recursive reference can use up the stack.
        return Failures((), ("/: $ref",))
    except SchemaGivenUp:
        return Failures((), ("/: too much to check",))
    required = schema.get("required", ())
    names = required if isinstance(required, list) else ()
    missing = tuple(name for name in names if name not in value)
    problems = {
        f"{_pointer(error)}: {error.validator}" for error in errors if not _is_missing(error)
    }
    return Failures(missing, tuple(sorted(problems)[:MAX_PROBLEMS]))


def _is_missing(error: ValidationError) -> bool:
    return list(error.absolute_schema_path) == ["required"]


def _pointer(error: ValidationError | SchemaError) -> str:
    return pointer_to(error.absolute_path) or "/"


def _require_resolvable(schema: Mapping[str, object]) -> None:
    root = DRAFT202012.create_resource(schema)
    open_parts = [(root, Registry().resolver_with_root(root))]
    while open_parts:
        part, resolver = open_parts.pop()
        if isinstance(part.contents, dict):
            for reference in _REFERENCES & part.contents.keys():
                resolver.lookup(part.contents[reference])
        open_parts.extend((inner, resolver.in_subresource(inner)) for inner in part.subresources())
