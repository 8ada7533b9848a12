"""A worker's death at a chosen append: the port `Leases` behind which the process is gone.

`Killed` is no Exception, so nothing in the service can take it for a fault of its own, and nothing
tidies up after it. A lease of the dead stays taken until a test lets it run out.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from typing_extensions import override

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from datetime import datetime

    from app.log.envelope import Event, NewEvent
    from app.log.records import Lease
    from app.runctx.shapes import ArtifactRef, NewArtifact
    from app.service.ports.leases import Leases

Moment = Literal["before", "after"]


class Killed(BaseException):
    """The process is gone."""


async def raise_killed() -> None:
    """The end of a worker that shares its process with the test."""
    raise Killed


@dataclass
class NotedLeases:
    """Writes down the types of the events that a worker appends, in order."""

    leases: Leases
    appended: list[str] = field(default_factory=list, kw_only=True)

    async def claim(self, conversation_id: str, *, owner: str, ttl_s: float) -> Lease | None:
        return await self.leases.claim(conversation_id, owner=owner, ttl_s=ttl_s)

    async def renew(self, lease: Lease, *, ttl_s: float) -> None:
        await self.leases.renew(lease, ttl_s=ttl_s)

    async def keep(self, lease: Lease, new: NewArtifact) -> ArtifactRef:
        return await self.leases.keep(lease, new)

    async def append(
        self, lease: Lease, events: Sequence[NewEvent], *, now: datetime
    ) -> list[Event]:
        self.appended += [event.type for event in events]
        return await self.leases.append(lease, events, now=now)

    async def finish(
        self, lease: Lease, events: Sequence[NewEvent], *, now: datetime
    ) -> list[Event]:
        self.appended += [event.type for event in events]
        return await self.leases.finish(lease, events, now=now)


@dataclass
class DeadlyLeases(NotedLeases):
    """Dies right before or right after the commit of the `nth` event of a type (from 1).

    `die` may also be something else that is to happen there.
    """

    event_type: str
    moment: Moment
    nth: int = 1
    die: Callable[[], Awaitable[object]] = raise_killed

    @override
    async def append(
        self, lease: Lease, events: Sequence[NewEvent], *, now: datetime
    ) -> list[Event]:
        deadly = self._meets(events)
        if deadly and self.moment == "before":
            await self.die()
        done = await super().append(lease, events, now=now)
        if deadly:
            await self.die()
        return done

    @override
    async def finish(
        self, lease: Lease, events: Sequence[NewEvent], *, now: datetime
    ) -> list[Event]:
        deadly = self._meets(events)
        if deadly and self.moment == "before":
            await self.die()
        done = await super().finish(lease, events, now=now)
        if deadly:
            await self.die()
        return done

    def _meets(self, events: Sequence[NewEvent]) -> bool:
        """Whether the event is in this batch; counts those that came before it."""
        for event in events:
            self.nth -= event.type == self.event_type
        return self.nth <= 0 and any(event.type == self.event_type for event in events)
