"""The one place that says what an event does to the projections. Pure: event in, changes out.

The append and the rebuild both go through `project`, so what they make can only differ if a row was
changed by other means.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.log import runs
from app.store.projections.approvals import RULES as APPROVAL_RULES
from app.store.projections.fact import run_change
from app.store.projections.grants import RULES as GRANT_RULES
from app.store.projections.runs import RULES as RUN_RULES

if TYPE_CHECKING:
    from app.log.envelope import NewEvent
    from app.store.projections.changes import Change
    from app.store.projections.fact import Fact

_RULES = RUN_RULES | APPROVAL_RULES | GRANT_RULES


def is_projected(new: NewEvent) -> bool:
    """Whether the event can change any row; streamed text, most of a log, does not."""
    return type(new.payload) in _RULES or new.trust.taints


def project(fact: Fact) -> list[Change]:
    """The changes that this event makes, in order."""
    rule = _RULES.get(type(fact.payload))
    changes = [] if rule is None else rule(fact, fact.payload)
    if fact.event.trust.taints and fact.event.run_id is not None and not _starts_tainted(fact):
        changes.append(run_change(fact, fact.event.run_id, tainted=True))
    return changes


def _starts_tainted(fact: Fact) -> bool:
    """Whether the event's own rule has taken over the conversation's taint already."""
    return isinstance(fact.payload, runs.RunCreated | runs.RunStarted | runs.RunResumed)
