"""What a turn may do without asking, and the consents that outlive one call (turn.md 5.3, 6.8).

A grant policy is standing and taint narrows it. A remembered grant acts inside the gate, by making
capabilities taint resilient for one tool; a session approval acts after the gate has asked.
Whether a grant is live (principal, expiry, revocation, coverage) is checked before it gets here.
"""

from __future__ import annotations

from dataclasses import dataclass

from app.policy.capability import (
    NEVER_GRANTED,
    NO_CAPABILITIES,
    ORDINARY,
    TAINT_REVOKED,
    CapabilitySet,
    in_order,
)


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
    """A live, passkey-signed grant for one tool, as the turn sees it."""

    covered: CapabilitySet
    grant_ref: str
    coverage_hash: str


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
