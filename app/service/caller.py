"""The authenticated caller of a use case, and the scopes that open things (service.md 2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from app.log.queries import Reach
from app.service.refusals import ScopeMissing

SCOPES: Final = frozenset(
    {
        "runs:read",
        "runs:write",
        "approvals:read",
        "approvals:decide",
        "agents:read",
        "agents:write",
        "tools:read",
        "tools:write",
        "keys:write",
        "grants:write",
        "artifacts:write",
        "memory:read",
        "skills:write",
        "triggers:write",
        "admin",
    }
)


@dataclass(frozen=True, slots=True)
class Caller:
    """One person, by one token: `principal` is its `sub`; consent, memory and taint follow it."""

    tenant: str
    principal: str
    scopes: frozenset[str]
    roles: frozenset[str] = frozenset()

    @property
    def is_admin(self) -> bool:
        """Whether everything of the tenant may be read; it never makes an approver."""
        return "admin" in self.scopes

    @property
    def reach(self) -> Reach:
        """What lists show to the caller."""
        return Reach(None if self.is_admin else self.principal, self.roles)

    def require(self, *scopes: str) -> None:
        """Pass with any one of `scopes`, or with `admin`. Raises ScopeMissing naming the first."""
        if not self.is_admin and self.scopes.isdisjoint(scopes):
            raise ScopeMissing(scopes[0])
