"""How long a run was worked on, which is what its deadline counts (service.md 3)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime


@dataclass(slots=True)
class ActiveTime:
    """The time in which a run was worked on: from each start of a turn to its last event."""

    seconds: float = 0.0
    since: datetime | None = None
    until: datetime | None = None

    def began(self, at: datetime) -> None:
        """A turn began; the one before it ended with its last event."""
        self.ended()
        self.since = self.until = at

    def ended(self) -> None:
        """Count the turn at hand."""
        if self.since is not None and self.until is not None:
            self.seconds += (self.until - self.since).total_seconds()
        self.since = self.until = None
