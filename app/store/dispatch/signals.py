"""Hints about commits: to this process at once, to the others by NOTIFY. They carry no promise.

One connection of its own listens and notifies, in batches and outside of every append: a NOTIFY
makes the transactions that use it commit one after the other. While the connection is down hints
are lost, and readers find what they missed by reading; behind a pooler none is ever heard.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from app.store.server.connections import LOST

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from app.log.envelope import Event
    from app.store.server.connections import SteadyConnection

CHANNEL: Final = "turngate_heads"
PAYLOAD_BYTES: Final = 7500
PAUSE_S: Final = 0.020
PROBE_S: Final = 2.0


class StoreSignals:
    """The port `Signals`. `run` must be running; `sender` tells this process from others."""

    def __init__(self, connection: SteadyConnection, *, sender: str) -> None:
        self._connection = connection
        self._sender = sender
        self._on_commit: list[Callable[[str, Sequence[Event]], None]] = []
        self._on_head: list[Callable[[str, int], None]] = []
        self._heads: dict[str, int] = {}
        self._stirred = asyncio.Event()

    def on_commit(self, heard: Callable[[str, Sequence[Event]], None]) -> None:
        """Called in this process right after a commit with the events it added."""
        self._on_commit.append(heard)

    def on_head(self, heard: Callable[[str, int], None]) -> None:
        """Called with (conversation id, head) for commits of other processes."""
        self._on_head.append(heard)

    def committed(self, conversation_id: str, events: Sequence[Event]) -> None:
        """Tell everybody of a commit. What a listener raises is the event loop's to report."""
        if not events:
            return
        loop = asyncio.get_running_loop()
        for heard in self._on_commit:
            loop.call_soon(heard, conversation_id, events)
        self._heads[conversation_id] = events[-1].seq
        self._stirred.set()

    async def run(self) -> None:
        """Listen, and notify in batches, until cancelled."""
        listening: object = None
        while True:
            connection = await self._connection.get()
            try:
                if listening is not connection and not self._connection.is_pooled:
                    await connection.add_listener(CHANNEL, self._heard)
                    listening = connection
                await self._wait()
                heads, self._heads = self._heads, {}
                for payload in self._payloads(heads):
                    await connection.execute("SELECT pg_notify($1, $2)", CHANNEL, payload)
                if heads:
                    # A first hint goes out at once; what comes meanwhile goes with the next.
                    await asyncio.sleep(PAUSE_S)
            except LOST:
                self._connection.drop()

    async def _wait(self) -> None:
        """Until there is something to tell, or it is time to see whether we are still heard."""
        try:
            async with asyncio.timeout(PROBE_S):
                await self._stirred.wait()
        except TimeoutError:
            return
        self._stirred.clear()

    def _payloads(self, heads: dict[str, int]) -> Iterator[str]:
        """`sender id=head id=head …`, each below the 8000 bytes that NOTIFY takes."""
        payload = self._sender
        for conversation_id, head in heads.items():
            item = f" {conversation_id}={head}"
            if len(payload) + len(item.encode()) > PAYLOAD_BYTES:
                yield payload
                payload = self._sender
            payload += item
        if payload != self._sender:
            yield payload

    def _heard(self, _connection: Any, _pid: int, _channel: str, payload: object) -> None:
        sender, *items = str(payload).split(" ")
        if sender == self._sender:
            return
        for item in items:
            conversation_id, _, head = item.rpartition("=")
            for heard in self._on_head:
                heard(conversation_id, int(head))
