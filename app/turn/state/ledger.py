"""The decisions a turn has left (turn.md 2.3): each answers one request, each is used once.

The ordered list comes first, then the tuples of the three collections. Calls and decisions are
compared by canonical value, so the spelling of arguments never matters.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from app.engine.json.arguments import Arguments, parse_arguments
from app.turn.options import ApprovalDecision, Identity

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from app.turn.options import ApprovalOverride, RunTurnOptions
    from app.turn.state.call import OpenCall


@dataclass(frozen=True, slots=True)
class IdleOverride:
    """An edit that no approval carries: it approves nothing and is reported."""

    identity: Identity


class DecisionLedger:
    """What remains of a turn's decisions. Raises ValueError where one consent could serve twice."""

    def __init__(self, options: RunTurnOptions) -> None:
        listed = [_canonical(decision) for decision in options.approval_decisions]
        approved = {canonical_identity(identity) for identity in options.approved_call_ids}
        denied = {canonical_identity(identity) for identity in options.denied_call_ids}
        _refuse_overlap({decision.identity for decision in listed}, approved | denied)
        _refuse_overlap(approved, denied)
        edits = {
            canonical_identity(identity): edit
            for identity, edit in options.approved_overrides.items()
        }
        self._remaining = [*listed, *_unordered(approved, edits), *_unordered(denied, None)]
        self.idle_overrides = tuple(IdleOverride(key) for key in edits if key not in approved)

    def __len__(self) -> int:
        return len(self._remaining)

    def __iter__(self) -> Iterator[ApprovalDecision]:
        return iter(self._remaining)

    def take(self, call: OpenCall, args: Arguments) -> ApprovalDecision | None:
        """The first decision that fits the call, drained; None if none fits."""
        identity = Identity(call.request_id, call.tool, args.canonical.decode())
        for index, decision in enumerate(self._remaining):
            if decision.identity == identity and _fits_occurrence(decision, call):
                return self._remaining.pop(index)
        return None

    def take_under(self, call_id: str) -> list[ApprovalDecision]:
        """The decisions on calls of the worker behind a delegation, drained."""
        theirs = [one for one in self._remaining if _is_under(one, call_id)]
        self._remaining = [one for one in self._remaining if not _is_under(one, call_id)]
        return theirs

    @property
    def approved_call_ids(self) -> frozenset[Identity]:
        """The identities whose next decision approves."""
        return frozenset(key for key, decision in self._next() if decision.approved)

    @property
    def approved_overrides(self) -> dict[Identity, ApprovalOverride]:
        """The edits among the next approvals."""
        return {
            key: decision.override
            for key, decision in self._next()
            if decision.approved and decision.override is not None
        }

    @property
    def denied_call_ids(self) -> frozenset[Identity]:
        """The identities whose next decision denies."""
        return frozenset(key for key, decision in self._next() if not decision.approved)

    def _next(self) -> Iterable[tuple[Identity, ApprovalDecision]]:
        first: dict[Identity, ApprovalDecision] = {}
        for decision in self._remaining:
            first.setdefault(decision.identity, decision)
        return first.items()


def worker_turn_id(turn_id: str, call_id: str, number: int) -> str:
    """A worker's turns are numbered under its delegation, by which decisions find it."""
    return f"{turn_id}/{call_id}/{number}"


def _is_under(decision: ApprovalDecision, call_id: str) -> bool:
    return f"/{call_id}/" in (decision.turn_id or "")


def canonical_identity(identity: Identity) -> Identity:
    """The identity with its arguments in canonical form; malformed ones stay and fit nothing."""
    match parse_arguments(identity.args_json):
        case Arguments(canonical=canonical):
            return replace(identity, args_json=canonical.decode())
        case _:
            return identity


def _canonical(decision: ApprovalDecision) -> ApprovalDecision:
    return replace(decision, args_json=canonical_identity(decision.identity).args_json)


def _refuse_overlap(some: set[Identity], others: set[Identity]) -> None:
    if both := some & others:
        ids = ", ".join(sorted(repr(identity.request_id) for identity in both))
        raise ValueError(f"expected one decision per call, found two for {ids}")


def _unordered(
    identities: set[Identity], edits: dict[Identity, ApprovalOverride] | None
) -> list[ApprovalDecision]:
    """One turnless decision per tuple: approvals if there are `edits`, denials otherwise.

    A set has no order, and a turn must not depend on one, so the tuples are sorted.
    """
    return [
        ApprovalDecision(
            request_id=identity.request_id,
            tool_name=identity.tool_name,
            args_json=identity.args_json,
            approved=edits is not None,
            override=(edits or {}).get(identity),
        )
        for identity in sorted(
            identities, key=lambda key: (key.request_id, key.tool_name, key.args_json)
        )
    ]


def _fits_occurrence(decision: ApprovalDecision, call: OpenCall) -> bool:
    if decision.call_id is not None and decision.call_id != call.call_id:
        return False
    if decision.outcome_unknown or call.is_started:
        # Only the answer to "run it again?" moves a started call, and it moves nothing else.
        return decision.outcome_unknown and call.is_started
    return decision.turn_id is None or decision.turn_id == call.turn_id
