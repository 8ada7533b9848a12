"""What a read of the store is asked for: a page, a reach, a part of the log."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Page:
    """A keyset page, newest first: at most `limit` items strictly older than `before`."""

    limit: int = 50
    before: str | None = None


@dataclass(frozen=True, slots=True)
class Reach:
    """Whose resources a list may show: those of one principal, or all of the tenant's (None)."""

    principal: str | None
    roles: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class LogScope:
    """A run's events, or all of its conversation's."""

    conversation_id: str
    run_id: str | None = None


def audit_scope(tenant: str) -> LogScope:
    """The tenant's own log, which belongs to no conversation."""
    return LogScope(f"audit_{tenant}")
