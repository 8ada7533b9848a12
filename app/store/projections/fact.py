"""What every projection rule gets to see of an event, and the change most of them make."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from app.log.payload import UsageTotals
from app.store.projections import kinds
from app.store.projections.changes import Change

if TYPE_CHECKING:
    from app.log.envelope import Event
    from app.log.payload import Payload

_NO_USAGE = UsageTotals().model_dump()


@dataclass(frozen=True, slots=True)
class Fact:
    """A numbered event with its typed payload, wire time, and its conversation's taint up to it."""

    event: Event
    payload: Payload
    at: str
    tainted: bool


def run_change(fact: Fact, run_id: str, **changed: Any) -> Change:
    """A change of the run that touches the named columns alone."""
    row = {
        "id": run_id,
        "conversation_id": fact.event.conversation_id,
        "status": None,
        "attempts": None,
        "started_at": None,
        "steps": None,
        "steps_added": 0,
        "usage_is_total": False,
        "tainted": False,
        "answer": None,
        "error": None,
        "ended_at": None,
    }
    return Change(kinds.RUN_CHANGED, _NO_USAGE | row | changed, writes=f"run:{run_id}")


def own_run(fact: Fact) -> str:
    """The run of the event. Raises ValueError for one that has none."""
    if fact.event.run_id is None:
        raise ValueError(f"an event of type {fact.event.type!r} belongs to a run, found none")
    return fact.event.run_id
