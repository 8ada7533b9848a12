"""What a tool requires and lets in, from its origin and annotations (turn.md 5.2).

The origin comes from the operator's registration alone. What a server says of its own tools may
add requirements and never removes one; a tool nobody registered requires everything.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final, assert_never

from app.policy.capability import (
    ALL_CAPABILITIES,
    NO_CAPABILITIES,
    Capability,
    CapabilitySet,
)


class Origin(StrEnum):
    """Where a tool comes from, as registered by the operator."""

    LOCAL_SANDBOX = "local-sandbox"
    FETCHER = "fetcher"
    FIRST_PARTY = "first-party"
    REGISTERED_CONNECTOR = "registered-connector"
    ACCESS_GRANT = "access-grant"
    ACCESS_REVOKE = "access-revoke"
    ADMIN_MANAGE = "admin-manage"
    ADMIN_GRANT = "admin-grant"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class ToolProfile:
    """One tool: origin, annotations, and what its registration requires beyond its origin."""

    origin: Origin
    read_only: bool = False
    destructive: bool = True
    open_world: bool = True
    extra: CapabilitySet = NO_CAPABILITIES

    def required(self) -> CapabilitySet:
        """The capabilities every call of the tool needs."""
        return _required_by_origin(self) | self.extra

    @property
    def ingests_untrusted(self) -> bool:
        """Whether a result carries content from outside, and so taints the run.

        A fetcher brings back what strangers wrote, whatever its annotations say.
        """
        return self.open_world or self.origin in {Origin.FETCHER, Origin.UNKNOWN}

    def merged(self, redeclared: ToolProfile) -> ToolProfile:
        """The profile after a server declared the tool again: requirements only ever grow."""
        return ToolProfile(
            origin=self.origin,
            read_only=self.read_only and redeclared.read_only,
            destructive=self.destructive or redeclared.destructive,
            open_world=self.open_world or redeclared.open_world,
            extra=self.extra | redeclared.extra,
        )


_LOCAL_READ: Final = frozenset({Capability.LOCAL_READ})
_LOCAL_WRITE: Final = frozenset({Capability.LOCAL_WRITE})
_CONNECTOR: Final = frozenset({Capability.FIXED_CONNECTOR_READ})
_EGRESS: Final = frozenset({Capability.ARBITRARY_EGRESS})
_MUTATE: Final = frozenset({Capability.MUTATE_EXTERNAL})


def _required_by_origin(profile: ToolProfile) -> CapabilitySet:
    match profile.origin:
        case Origin.LOCAL_SANDBOX:
            return _LOCAL_READ if profile.read_only else _LOCAL_READ | _LOCAL_WRITE
        case Origin.FETCHER:
            return _EGRESS | _MUTATE if profile.destructive else _EGRESS
        case Origin.FIRST_PARTY | Origin.REGISTERED_CONNECTOR:
            harmless = profile.read_only and not profile.destructive
            return _CONNECTOR if harmless else _CONNECTOR | _MUTATE
        case Origin.ACCESS_GRANT:
            return frozenset({Capability.GRANT_ACCESS})
        case Origin.ACCESS_REVOKE:
            return frozenset({Capability.REVOKE_ACCESS})
        case Origin.ADMIN_MANAGE:
            return frozenset({Capability.MANAGE_ADMIN})
        case Origin.ADMIN_GRANT:
            return frozenset({Capability.GRANT_ADMIN})
        case Origin.UNKNOWN:
            return ALL_CAPABILITIES
        case _:
            assert_never(profile.origin)
