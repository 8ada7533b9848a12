"""The closed list of event types, and the way from stored `data` back to a typed payload."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from app.log import approvals, attachments, audit, calls, grants, runs
from app.log.payload import Payload

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pydantic import JsonValue

_MODULES = (runs, attachments, calls, approvals, audit, grants)


def _tagged() -> dict[str, type[Payload]]:
    found: dict[str, type[Payload]] = {}
    for module in _MODULES:
        for value in vars(module).values():
            if isinstance(value, type) and issubclass(value, Payload) and "TYPE" in vars(value):
                found[value.TYPE] = value
    return found


PAYLOADS: Final[dict[str, type[Payload]]] = _tagged()

TERMINAL: Final = frozenset({"run.completed", "run.failed", "run.cancelled"})
TURN_ENDS: Final = TERMINAL | {"run.paused"}


class UnknownEventType(ValueError):
    """The log holds a type that this release does not know; its run is left untouched."""

    def __init__(self, event_type: str) -> None:
        super().__init__(f"event type {event_type!r} is not one this release knows")
        self.event_type = event_type


def refuse_unknown(event_types: Iterable[str]) -> None:
    """Raise UnknownEventType for the first that this release does not know."""
    for event_type in event_types:
        if event_type not in PAYLOADS:
            raise UnknownEventType(event_type)


def parse(event_type: str, data: JsonValue) -> Payload:
    """The typed payload of stored `data`. Raises UnknownEventType."""
    model = PAYLOADS.get(event_type)
    if model is None:
        raise UnknownEventType(event_type)
    return model.model_validate(data)
