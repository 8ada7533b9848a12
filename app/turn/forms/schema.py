"""Whether arguments fit a tool's JSON Schema (Draft 2020-12).

Checking reads and never coerces, defaults or reorders. A schema that cannot be evaluated, a remote
reference or a pattern that runs away, fits nothing: the check fails closed, in bounded time.
"""

from __future__ import annotations

import json
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Final

from app.engine.json.bounded_schema import BoundedSchema
from app.engine.json.pointer import pointer_to
from app.engine.json.text import compact_json
from app.turn.limits import SCHEMA_PROBLEM_CHARS, SCHEMA_PROBLEMS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jsonschema.exceptions import ValidationError
    from pydantic import JsonValue

    from app.turn.ports import ToolSpec

_BROKEN: Final = ("its schema cannot be evaluated",)


def off_schema(spec: ToolSpec, value: Mapping[str, JsonValue]) -> tuple[str, ...]:
    """What does not fit, the first few, each with its place; empty if all is well."""
    try:
        schema = _compiled(compact_json(spec.parameters))
        found = list(islice(schema.errors(value), SCHEMA_PROBLEMS))
    except Exception:  # noqa: BLE001 - a schema that is none raises whatever it runs into
        return _BROKEN
    return tuple(sorted(map(_told, found)))


# Compiling costs a person who waits for a tool more than all its checks; a compiled schema keeps
# nothing of what it was held against.
@lru_cache(maxsize=256)
def _compiled(schema: str) -> BoundedSchema:
    return BoundedSchema(json.loads(schema))


def _told(error: ValidationError) -> str:
    place = pointer_to(error.absolute_path) or "/"
    return f"at {place}: {error.message}"[:SCHEMA_PROBLEM_CHARS]
