"""What a turn may do without asking, and the consents that outlive one call (turn.md 5.3, 6.8).

A grant policy is standing and taint narrows it. A remembered grant acts inside the gate, by making
capabilities taint resilient for one tool; a session approval acts after the gate has asked. Whose
a grant is, whether it was taken back and whether its tool is still the same is checked before it
gets here; its time and its constraints are checked here, for each call.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from app.policy.capability import (
    NEVER_GRANTED,
    NO_CAPABILITIES,
    ORDINARY,
    TAINT_REVOKED,
    CapabilitySet,
    in_order,
)
from app.policy.constraints import all_met

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pydantic import JsonValue

    from app.policy.constraints import Constraint


@dataclass(frozen=True, slots=True)
class GrantPolicy:
    """An agent's standing grants. Raises ValueError where a policy could never be lawful."""

    base: CapabilitySet = ORDINARY
    taint_resilient: CapabilitySet = NO_CAPABILITIES

    def __post_init__(self) -> None:
        """Refuse a base that no policy may have, and resilience beyond the base."""
        if forbidden := self.base & NEVER_GRANTED:
            raise ValueError(f"base must not contain {_names(forbidden)}")
        if excess := self.taint_resilient - self.base:
            raise ValueError(f"taint_resilient is not within base: {_names(excess)}")

    def granted(self, tainted: bool) -> CapabilitySet:
        """What is granted now. Taint only removes."""
        return self.base - (TAINT_REVOKED - self.taint_resilient) if tainted else self.base

    def with_resilient(self, extra: CapabilitySet) -> GrantPolicy:
        """The policy of one call under a remembered grant: `extra` within the base also resists.

        What lies outside the base is left out: a grant lifts the taint and widens nothing.
        """
        return GrantPolicy(self.base, self.taint_resilient | (extra & self.base))


@dataclass(frozen=True, slots=True)
class RememberedGrant:
    """A passkey-signed grant for one tool, as the turn sees it. Times are unix milliseconds.

    It reaches to the calls whose arguments meet every constraint, and ends at `expires_at_ms`.
    """

    covered: CapabilitySet
    grant_ref: str
    coverage_hash: str
    constraints: tuple[Constraint, ...] = ()
    expires_at_ms: int | None = None

    def is_in_time(self, now_ms: int) -> bool:
        """Whether it has not expired."""
        return self.expires_at_ms is None or now_ms < self.expires_at_ms

    def reaches(self, args: JsonValue) -> bool:
        """Whether it is for calls with these arguments."""
        return all_met(self.constraints, args)


def serving_grant(
    grants: Iterable[RememberedGrant], args: JsonValue, *, required: CapabilitySet, now_ms: int
) -> RememberedGrant | None:
    """The one grant for a call: of those that reach it, that which covers most of its needs.

    Sets of several grants are not joined: nobody has consented to what they cover together.
    """
    fitting = [one for one in grants if one.is_in_time(now_ms) and one.reaches(args)]
    return max(fitting, key=lambda one: len(one.covered & required), default=None)


@dataclass(frozen=True, slots=True)
class SessionApproval:
    """Standing consent to one tool, for any arguments, from a decision with session scope."""

    covered: CapabilitySet
    approval_id: str

    def fits(self, missing: CapabilitySet, *, cacheable: bool) -> bool:
        """Whether it serves a call that lacks `missing`; `cacheable` is the tool's own word."""
        return cacheable and missing <= self.covered and not missing & NEVER_GRANTED


def _names(capabilities: CapabilitySet) -> str:
    return ", ".join(in_order(capabilities))
