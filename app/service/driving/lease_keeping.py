"""Keeping a lease while its run is driven: prolonged in time, and given up as soon as it is lost.

A cancel takes the lease away, and what runs should hear of it at once, not at the next heartbeat.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from typing_extensions import override

from app.service.ports.signals import Listener

if TYPE_CHECKING:
    from collections.abc import Sequence

    from app.log.envelope import Event
    from app.log.records import Lease
    from app.service.clock import Clock
    from app.service.ports.leases import Leases

HEARTBEATS_PER_LEASE: Final = 3


class LeaseKeeper(Listener):
    """Prolongs the leases of this process. Both of its tasks end by raising LeaseLost."""

    def __init__(self, leases: Leases, clock: Clock, *, ttl_s: float) -> None:
        self._leases = leases
        self._clock = clock
        self._ttl_s = ttl_s
        self._nudges: dict[str, asyncio.Event] = {}

    async def heartbeat(self, lease: Lease) -> None:
        """Prolong the lease until cancelled."""
        while True:
            await self._clock.sleep(self._ttl_s / HEARTBEATS_PER_LEASE)
            await self._leases.renew(lease, ttl_s=self._ttl_s)

    async def watch(self, lease: Lease) -> None:
        """See whether the lease still holds whenever somebody else has written to its log."""
        nudge = self._nudges[lease.conversation_id] = asyncio.Event()
        try:
            while True:
                await nudge.wait()
                nudge.clear()
                await self._leases.renew(lease, ttl_s=self._ttl_s)
        finally:
            del self._nudges[lease.conversation_id]

    @override
    def _committed(self, conversation_id: str, events: Sequence[Event]) -> None:
        # What the drive itself writes is heard here as well, and says nothing about its lease.
        if any(event.type == "run.cancelled" for event in events):
            self._nudge(conversation_id)

    @override
    def _moved(self, conversation_id: str, head: int) -> None:
        self._nudge(conversation_id)

    def _nudge(self, conversation_id: str) -> None:
        if (nudge := self._nudges.get(conversation_id)) is not None:
            nudge.set()
