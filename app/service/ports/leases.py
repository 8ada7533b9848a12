"""What drives a run: the claim on its conversation, and the appends that the claim allows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from app.log.envelope import Event, NewEvent
    from app.log.records import Lease
    from app.runctx.shapes import ArtifactRef, NewArtifact


class Leases(Protocol):
    """Claims, and appends fenced by a claim's generation.

    A caller awaits its commit. Cancelling an append is safe: it is committed or it is not, and
    what was committed is in the log. Every method but `claim` raises LeaseLost when another worker
    has taken over.
    """

    async def claim(self, conversation_id: str, *, owner: str, ttl_s: float) -> Lease | None:
        """Take the conversation if its lease is free or over and a run is ready; else None."""
        ...

    async def renew(self, lease: Lease, *, ttl_s: float) -> None:
        """Prolong the lease."""
        ...

    async def append(
        self, lease: Lease, events: Sequence[NewEvent], *, now: datetime
    ) -> list[Event]: ...
    async def finish(
        self, lease: Lease, events: Sequence[NewEvent], *, now: datetime
    ) -> list[Event]:
        """Append the closing events, free the lease and wake the next ready run, as one."""
        ...

    async def keep(self, lease: Lease, new: NewArtifact) -> ArtifactRef:
        """Keep a file of the leased run in its conversation, for good when this returns."""
        ...
