"""Whether arguments fit a tool's JSON Schema (Draft 2020-12).

Checking reads and never coerces, defaults or reorders. A schema that cannot be evaluated, a remote
reference among others, fits nothing: the check fails closed and never goes to the network. Patterns
may be a stranger's, so each has little time to match.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import regex
from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError
from jsonschema.validators import extend
from referencing import Registry

from app.turn.limits import SCHEMA_PATTERN_S, SCHEMA_PROBLEM_CHARS, SCHEMA_PROBLEMS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from jsonschema.protocols import Validator
    from pydantic import JsonValue

    from app.turn.ports import ToolSpec

_NO_REFERENCES: Final[Registry[bool | Mapping[str, Any]]] = Registry()
_BROKEN: Final = ("its schema cannot be evaluated",)


def _pattern(
    _validator: Validator, pattern: str, instance: object, _schema: Mapping[str, Any]
) -> Iterator[ValidationError]:
    """The keyword `pattern`. Raises TimeoutError for one that runs away."""
    if not isinstance(instance, str):
        return
    if regex.search(pattern, instance, timeout=SCHEMA_PATTERN_S) is None:
        yield ValidationError(f"{instance!r} does not match {pattern!r}")


# The function comes without types.
_extend: Callable[..., type[Validator]] = extend
_Checked: Final = _extend(Draft202012Validator, {"pattern": _pattern})


class Schemas:
    """The validators of one turn's tools, each compiled when it is first needed."""

    def __init__(self) -> None:
        self._by_spec: dict[str, Validator] = {}

    def problems(self, spec: ToolSpec, value: Mapping[str, JsonValue]) -> tuple[str, ...]:
        """What does not fit, the first few, each with its place; empty if all is well."""
        validator = self._by_spec.get(spec.name)
        if validator is None:
            validator = _Checked(dict(spec.parameters), registry=_NO_REFERENCES)
            self._by_spec[spec.name] = validator
        try:
            found = list(islice(validator.iter_errors(value), SCHEMA_PROBLEMS))
        except Exception:  # noqa: BLE001 - a schema that is none raises whatever it runs into
            return _BROKEN
        return tuple(sorted(map(_told, found)))


def _told(error: ValidationError) -> str:
    place = "".join(f"/{step}" for step in error.absolute_path) or "/"
    return f"at {place}: {error.message}"[:SCHEMA_PROBLEM_CHARS]
