"""The one place where a terminal answer is built and validated (run-context.md 3.2, 3.8).

Pure: no log, no clock, no I/O, and arguments stay as they are. An outcome is never lost because its
shape was unexpected; what a schema was promised is either held to the byte or refused.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import date, time
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, ClassVar, Final
from uuid import UUID

from pydantic import BaseModel

from app.engine.finish import FinishReason
from app.engine.json.arguments import JsonDefect, strict_loads
from app.engine.json.text import compact_json
from app.runctx.text import without_surrogates

if TYPE_CHECKING:
    from app.engine.finish import Finish
    from app.engine.json.output_schema import CompiledSchema

MAX_DEPTH: Final = 64


class OutputInvalid(ValueError):
    """The answer is not what the schema promises; `pointer` is where, and nothing says what.

    `code` is the error of a run (service.md 11), no problem of a request.
    """

    code: ClassVar[str] = "output_invalid"

    def __init__(self, pointer: str, problem: str) -> None:
        self.message = f"the answer {problem} at {pointer}"
        super().__init__(self.message)
        self.pointer = pointer


class CallFate(Enum):
    """What became of a call the model emitted, as far as an answer tells of it."""

    EXECUTED = auto()
    DELEGATED = auto()
    ASKED = auto()
    OUTPUT = auto()
    NOT_RUN = auto()


@dataclass(frozen=True, slots=True)
class Trajectory:
    """What a run did: for each step the fates of its calls. EXECUTED: the execution started."""

    steps: tuple[tuple[CallFate, ...], ...] = ()

    @property
    def tool_calls_seen(self) -> int:
        """The calls whose execution started, every branch of a parallel step."""
        return sum(step.count(CallFate.EXECUTED) for step in self.steps)


@dataclass(frozen=True, slots=True)
class AnswerEnvelope:
    """The stored answer; `answer_payload` are exact JSON bytes, with an output schema alone."""

    answer: str
    finish_reason: FinishReason
    tool_calls_seen: int
    answer_payload: bytes | None = None


def finish_answer_envelope(
    finish: Finish, *, trajectory: Trajectory | None = None, schema: CompiledSchema | None = None
) -> AnswerEnvelope:
    """The envelope of a run's end. Raises OutputInvalid if a goal is not what the schema says."""
    seen = 0 if trajectory is None else trajectory.tool_calls_seen
    if schema is None or finish.reason is not FinishReason.GOAL:
        return AnswerEnvelope(extract_assistant_answer(finish), finish.reason, seen)
    payload = _payload_bytes(finish.payload)
    try:
        value = strict_loads(payload, big_numbers=True)
    except JsonDefect as error:
        raise OutputInvalid(error.pointer or "/", "is not sound JSON") from None
    if (pointer := schema.first_violation(value)) is not None:
        raise OutputInvalid(pointer, "does not match the output schema")
    return AnswerEnvelope(payload.decode(), finish.reason, seen, payload)


def extract_assistant_answer(finish: Finish) -> str:
    """The answer as text: what was said, or a deterministic rendering of whatever it is."""
    match finish.payload:
        case str() as text:
            return text
        case {"answer": str() as text}:
            return text
        case None:
            return finish.reason.value
        case other:
            return _compact(_plain(other, MAX_DEPTH, ()))


def _payload_bytes(payload: object) -> bytes:
    match payload:
        case bytes():
            return payload
        case None:
            raise OutputInvalid("/", "is missing")
        case str():
            # A lone surrogate has no bytes; the marks put in its place are no sound JSON either.
            return payload.encode(errors="surrogatepass")
        case _:
            try:
                return compact_json(_sorted(payload)).encode()
            except (TypeError, ValueError, RecursionError):
                raise OutputInvalid("/", "is not sound JSON") from None


def _sorted(value: object) -> object:
    """The value with sorted members; a model has them in its own JSON form, a data class as is."""
    if isinstance(value, BaseModel):
        return _sorted(value.model_dump(mode="json"))
    if (members := _members(value)) is not None:
        names: list[Any] = list(members)
        return {name: _sorted(members[name]) for name in sorted(names)}
    if isinstance(value, list | tuple):
        return [_sorted(item) for item in value]
    return value


def _compact(value: object) -> str:
    return compact_json(_sorted(value))


def _plain(value: object, depth: int, within: tuple[int, ...]) -> object:
    """A JSON value for any value whatever; `within` are the containers on the way to it."""
    match value:
        case int() if value.bit_length() > _INT_BITS:
            return _unserializable(value)
        case None | bool() | int() | str():
            return value if not isinstance(value, str) else without_surrogates(value)
        case float():
            return value if math.isfinite(value) else _NON_FINITE[str(value)]
        case date() | time():
            return value.isoformat()
        case _:
            return _container(value, depth, within)


def _container(value: object, depth: int, within: tuple[int, ...]) -> object:
    if depth == 0 or id(value) in within:
        return _unserializable(value)
    inner = (*within, id(value))
    if (members := _members(value)) is not None:
        return {_name(key): _plain(item, depth - 1, inner) for key, item in members.items()}
    if isinstance(value, list | tuple):
        return [_plain(item, depth - 1, inner) for item in value]
    if isinstance(value, AbstractSet):
        plain = [_plain(item, depth - 1, inner) for item in value]
        return sorted(plain, key=_compact)
    return _unserializable(value)


# Python writes no integer of more than 4,300 digits.
_INT_BITS: Final = 14_000
_NON_FINITE: Final = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}


def _members(value: object) -> Mapping[object, object] | None:
    """The members of what becomes a mapping."""
    if isinstance(value, BaseModel):
        return _set_of(value, type(value).model_fields)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return _set_of(value, [field.name for field in dataclasses.fields(value)])
    return value if isinstance(value, Mapping) else None


def _set_of(value: object, names: Iterable[str]) -> Mapping[object, object]:
    """The members of those that are set: one may be declared and not be there."""
    return {name: getattr(value, name) for name in names if hasattr(value, name)}


def _name(key: object) -> str:
    """The name of a member: a key that is no plain value is named by its rendering."""
    match key:
        case bool() | float() | str() | date() | time() | UUID():
            return without_surrogates(str(key))
        case _:
            return _compact(_plain(key, MAX_DEPTH, ()))


def _unserializable(value: object) -> dict[str, object]:
    return {"unserializable": type(value).__name__}
