"""Changes of projected rows, and the order in which they may be written. Pure.

A change is a row for one kind of statement. The statements of one round run as one, on one
snapshot: none sees what another has done, and no row may be written twice. So `rounds` puts a
change after those it builds on, and merges what it can.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from app.store.projections.kinds import (
    APPROVAL_CHANGED,
    EXECUTION_SETTLED,
    EXECUTION_STARTED,
    PAUSE_SETTLED,
    RUN_CHANGED,
    USAGE,
    Kind,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Change:
    """A row for `kind`, with what it writes alone, writes beside others, and reads."""

    kind: Kind
    row: Row
    writes: str
    marks: frozenset[str] = frozenset()
    reads: frozenset[str] = frozenset()


Round = dict[Kind, list[Change]]


@dataclass(slots=True)
class _Plan:
    """Rounds under construction: for each subject, where it was written and read last."""

    rounds: list[Round]
    written: dict[str, tuple[int, Change]]
    marked: dict[str, int]
    read: dict[str, int]

    def add(self, change: Change) -> None:
        earliest = 0 if change.kind.rides else 1
        for subject in change.reads:
            if subject in self.written:
                earliest = max(earliest, self.written[subject][0] + 1)
            earliest = max(earliest, self.marked.get(subject, -1) + 1)
        # Who reads it in that round sees what was there before, so a writer may share the round.
        earliest = max(earliest, self.read.get(change.writes, 0))
        before = self.written.get(change.writes)
        if before is not None:
            at, first = before
            both = merged(first, change) if at >= earliest else None
            if both is not None:
                changes = self.rounds[at][first.kind]
                changes[changes.index(first)] = both
                self._note(at, both)
                return
            earliest = max(earliest, at + 1)
        while len(self.rounds) <= earliest:
            self.rounds.append({})
        self.rounds[earliest].setdefault(change.kind, []).append(change)
        self._note(earliest, change)

    def _note(self, at: int, change: Change) -> None:
        self.written[change.writes] = (at, change)
        for subject in change.marks:
            self.marked[subject] = max(at, self.marked.get(subject, -1))
        for subject in change.reads:
            self.read[subject] = max(at, self.read.get(subject, 0))


def rounds(changes: Iterable[Change]) -> list[Round]:
    """The changes in as few rounds as their dependencies allow; the first may ride an append."""
    plan = _Plan([{}], {}, {}, {})
    for change in changes:
        plan.add(change)
    return plan.rounds


def merged(first: Change, second: Change) -> Change | None:
    """One change that does what both do in turn; None where there is no such change."""
    if first.kind is RUN_CHANGED and second.kind is RUN_CHANGED:
        return replace(first, row=_both_run_changes(first.row, second.row))
    if first.kind is APPROVAL_CHANGED and second.kind is APPROVAL_CHANGED:
        both = _both_approval_changes(first.row, second.row)
        return None if both is None else replace(first, row=both)
    if first.kind is PAUSE_SETTLED and second.kind is PAUSE_SETTLED:
        settled = first.row["settled"] + second.row["settled"]
        return replace(
            first, row=first.row | {"settled": settled}, reads=first.reads | second.reads
        )
    if first.kind is EXECUTION_STARTED and second.kind is EXECUTION_SETTLED:
        return replace(first, row=first.row | {"settled": True})
    if first.kind is EXECUTION_SETTLED and second.kind is EXECUTION_SETTLED:
        return first
    return None


def _both_run_changes(first: Row, second: Row) -> Row:
    if first["ended_at"] is not None:
        return first
    both = first | {
        name: value for name, value in second.items() if value is not None and name != "started_at"
    }
    both["started_at"] = first["started_at"] or second["started_at"]
    both["tainted"] = first["tainted"] or second["tainted"]
    if second["steps"] is None:
        both["steps_added"] = first["steps_added"] + second["steps_added"]
    if not second["usage_is_total"]:
        both["usage_is_total"] = first["usage_is_total"]
        both |= {name: first[name] + second[name] for name in USAGE}
    return both


def _both_approval_changes(first: Row, second: Row) -> Row | None:
    if first["status"] is not None:
        # Whether the second still applies depends on the first.
        return None
    both = first | {name: value for name, value in second.items() if value is not None}
    if second["effective_args_sha256"] is not None:
        both["override_args"] = second["override_args"]
    both["refusals"] = first["refusals"] + second["refusals"]
    return both
