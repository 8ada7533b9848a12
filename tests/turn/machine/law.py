"""What the rules say of one call: turn.md 3.4, 5.3, 5.4, 6.8 and 7.5 written down a second time.

Nothing here is read from the implementation but its words for capabilities and outcomes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from app.policy.capability import Capability, CapabilitySet
from tests.turn.machine.house import TOOLS

if TYPE_CHECKING:
    from app.log.calls import GateLabel, GateRule
    from tests.turn.machine.house import Policy

BASE: Final = frozenset(
    {
        Capability.LOCAL_READ,
        Capability.LOCAL_WRITE,
        Capability.FIXED_CONNECTOR_READ,
        Capability.ARBITRARY_EGRESS,
        Capability.MUTATE_EXTERNAL,
    }
)
REVOKED_BY_TAINT: Final = frozenset({Capability.ARBITRARY_EGRESS, Capability.MUTATE_EXTERNAL})
NEVER_GRANTED: Final = frozenset(
    {
        Capability.GRANT_ACCESS,
        Capability.REVOKE_ACCESS,
        Capability.MANAGE_ADMIN,
        Capability.GRANT_ADMIN,
    }
)
HARMLESS: Final = frozenset({Capability.LOCAL_READ, Capability.FIXED_CONNECTOR_READ})
NOTHING: Final[CapabilitySet] = frozenset()


@dataclass(frozen=True, slots=True)
class Circumstances:
    """What counts for a call besides the call: the policy, the taint, who may be asked.

    `grants` and `sessions` are standing consents in force, by tool. `records`: there is a recorder
    of mutations, so that they happen.
    """

    policy: Policy
    tainted: bool = False
    unattended: bool = False
    records: bool = False
    grants: frozenset[tuple[str, CapabilitySet]] = frozenset()
    sessions: frozenset[tuple[str, CapabilitySet]] = frozenset()

    def granted(self, tool: str = "") -> CapabilitySet:
        """What may be done unasked; a remembered grant lifts the taint for its tool alone."""
        resilient = next((covered for name, covered in self.grants if name == tool), NOTHING)
        return BASE - (REVOKED_BY_TAINT - resilient) if self.tainted else BASE


@dataclass(frozen=True, slots=True)
class Ruling:
    """The gate's verdict, and what lets the call run if anything but the gate does."""

    outcome: GateLabel
    rule: GateRule
    missing: CapabilitySet = NOTHING
    by_session: bool = False
    by_grant: bool = False

    @property
    def runs(self) -> bool:
        """Whether the call runs without anybody being asked."""
        return self.by_session or self.outcome in {"allow", "modify", "inject_context"}

    @property
    def asks(self) -> bool:
        """Whether a person is needed."""
        return self.outcome == "escalate" and not self.by_session


def ruling(tool: str, there: Circumstances) -> Ruling:
    """Ceiling, veto, capabilities, consent, transform: in this order."""
    known, policy = TOOLS[tool], there.policy
    required = policy.required(tool)
    if required - policy.ceiling:
        return Ruling("deny", "ceiling")
    missing = required - there.granted(tool)
    if tool in policy.vetoed:
        return Ruling("deny", "veto", missing)
    by_session = _session_fits(tool, missing, there)
    if missing:
        return Ruling("escalate", "capabilities", missing, by_session)
    if known.asks or tool in policy.asking:
        return Ruling("escalate", "consent", by_session=by_session)
    if known.escapes and policy.escalates_sandbox:
        return Ruling("escalate", "sandbox", by_session=by_session)
    by_grant = bool(required - there.granted())
    if there.records and known.rewrites is not None:
        return Ruling("modify", "transform", by_grant=by_grant)
    if there.records and known.injects:
        return Ruling("inject_context", "transform", by_grant=by_grant)
    return Ruling("allow", "none", by_grant=by_grant)


def _session_fits(tool: str, missing: CapabilitySet, there: Circumstances) -> bool:
    covered = next((covered for name, covered in there.sessions if name == tool), None)
    return (
        covered is not None
        and TOOLS[tool].cacheable
        and missing <= covered
        and not missing & NEVER_GRANTED
    )


def is_harmless(tool: str, policy: Policy) -> bool:
    """Whether the tool only reads, so that it may run while a person decides on a sibling."""
    return policy.required(tool) <= HARMLESS


def may_run_decided(tool: str, policy: Policy, covered: CapabilitySet | None) -> bool:
    """Whether policy still lets an approved call run (turn.md 6.4); taint is left aside."""
    required = policy.required(tool)
    if required - policy.ceiling or tool in policy.vetoed:
        return False
    return covered is None or required - BASE <= covered
