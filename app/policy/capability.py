"""The nine capabilities and the sets that rules are written in (turn.md 5.1).

A capability is the right to one kind of effect. Only names and sets belong here: which tool
requires what is `profile`, what a turn is granted is `grants`, the comparison is `gate`. Text is
read fail closed: a name this version does not know is an error, never an empty set.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable


class Capability(StrEnum):
    """One kind of effect. The value is the name on the wire; the order here is display order."""

    LOCAL_READ = "local-read"
    LOCAL_WRITE = "local-write"
    FIXED_CONNECTOR_READ = "fixed-connector-read"
    ARBITRARY_EGRESS = "arbitrary-egress"
    MUTATE_EXTERNAL = "mutate-external"
    GRANT_ACCESS = "grant-access"
    REVOKE_ACCESS = "revoke-access"
    MANAGE_ADMIN = "manage-admin"
    GRANT_ADMIN = "grant-admin"


CapabilitySet = frozenset[Capability]

NO_CAPABILITIES: Final[CapabilitySet] = frozenset()
ALL_CAPABILITIES: Final[CapabilitySet] = frozenset(Capability)

# What untrusted content in the context takes away: both are ways out for data.
TAINT_REVOKED: Final[CapabilitySet] = frozenset(
    {Capability.ARBITRARY_EGRESS, Capability.MUTATE_EXTERNAL}
)

# What no standing policy may ever contain: only a decision on the exact call satisfies these.
NEVER_GRANTED: Final[CapabilitySet] = frozenset(
    {
        Capability.GRANT_ACCESS,
        Capability.REVOKE_ACCESS,
        Capability.MANAGE_ADMIN,
        Capability.GRANT_ADMIN,
    }
)

ORDINARY: Final[CapabilitySet] = ALL_CAPABILITIES - NEVER_GRANTED


def parse_capability(name: str) -> Capability:
    """The capability of that wire name. Raises ValueError for any other text."""
    try:
        return Capability(name)
    except ValueError as error:
        raise ValueError(f"unknown capability {name!r}") from error


def parse_capabilities(names: Iterable[str]) -> CapabilitySet:
    """The set of those wire names. Raises ValueError at the first unknown one."""
    return frozenset(parse_capability(name) for name in names)


def in_order(capabilities: CapabilitySet) -> tuple[Capability, ...]:
    """The members in declared order, so that equal sets read alike on the wire and on cards."""
    return tuple(capability for capability in Capability if capability in capabilities)
