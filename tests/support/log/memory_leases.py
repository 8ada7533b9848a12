"""The port `Leases` in memory, for one lease: what was appended, when, and what stands in the way.

`closed` holds every append back until the test sets `opened`; `lost` makes the next ones fail.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from app.errors import LeaseLost
from app.ids import Identity
from app.log.envelope import Event, NewEvent, placed, wire_time
from app.runctx.shapes import ArtifactRef

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from app.log.records import Lease
    from app.runctx.shapes import NewArtifact


@dataclass(frozen=True)
class Append:
    """One commit: its events and the time it was given."""

    events: tuple[NewEvent, ...]
    now: datetime

    @property
    def types(self) -> list[str]:
        return [event.type for event in self.events]

    @property
    def texts(self) -> list[str]:
        return [event.payload.wire().get("text", "") for event in self.events]


@dataclass
class MemoryLeases:
    """A log that grows by commits; each is durable when its `append` returns."""

    appends: list[Append] = field(default_factory=list)
    lost: bool = False
    kept: list[NewArtifact] = field(default_factory=list)
    opened: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self.opened.set()

    @property
    def types(self) -> list[str]:
        """The types of all events, in order."""
        return [kind for append in self.appends for kind in append.types]

    @property
    def texts(self) -> list[str]:
        """The texts of all deltas, in order."""
        return [text for append in self.appends for text in append.texts if text]

    async def claim(self, conversation_id: str, *, owner: str, ttl_s: float) -> Lease | None:
        return None

    async def renew(self, lease: Lease, *, ttl_s: float) -> None:
        if self.lost:
            raise LeaseLost("the lease is another's")

    async def append(
        self, lease: Lease, events: Sequence[NewEvent], *, now: datetime
    ) -> list[Event]:
        await self.opened.wait()
        if self.lost:
            raise LeaseLost("the lease is another's")
        first = sum(len(append.events) for append in self.appends) + 1
        self.appends.append(Append(tuple(events), now))
        return [
            placed(event, conversation_id=lease.conversation_id, seq=seq, at=wire_time(now))
            for seq, event in enumerate(events, first)
        ]

    async def finish(
        self, lease: Lease, events: Sequence[NewEvent], *, now: datetime
    ) -> list[Event]:
        return await self.append(lease, events, now=now)

    async def keep(self, lease: Lease, new: NewArtifact) -> ArtifactRef:
        assert isinstance(new.content, bytes)
        self.kept.append(new)
        return ArtifactRef(
            id=new.id,
            identity=Identity(lease.tenant, "owner", lease.conversation_id, lease.run.id),
            namespace=new.namespace,
            sha256="",
            mime=new.mime,
            sniffed="text/plain",
            size_bytes=len(new.content),
            filename=new.filename,
            tool=new.tool,
            by=new.by,
            trust=new.trust,
            created_at=new.at,
        )
