"""What a read of the store is asked for: a page, a reach, a part of the log, a tool."""

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


@dataclass(frozen=True, slots=True)
class ToolQuery:
    """What a call asked for that no tool on offer answers to: words of its name, of its arguments.

    Every word is letters and digits.
    """

    named: tuple[str, ...]
    given: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ToolText:
    """What a tool can be found by: the words of its name, its parameters, what is said of it."""

    called: str
    takes: str
    about: str


def audit_scope(tenant: str) -> LogScope:
    """The tenant's own log, which belongs to no conversation."""
    return LogScope(f"audit_{tenant}")
