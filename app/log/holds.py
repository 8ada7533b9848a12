"""How processes tell each other of holds: subscribers that set the pace of a run (service.md 7)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class HoldRow:
    """A hold as processes tell each other of it; `subject` is a run or a whole conversation.

    `demoted_s` are the seconds since it was demoted; None while it holds.
    """

    tenant: str
    subject: str
    holder: str
    principal: str
    window: int
    acknowledged: int
    demoted_s: float | None = None


@dataclass(frozen=True, slots=True)
class HoldChanges:
    """What a process has to write down: holds begun, acknowledged or demoted, and holders gone."""

    rows: tuple[HoldRow, ...] = ()
    gone: tuple[str, ...] = ()
