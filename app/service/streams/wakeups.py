"""Who waits for which run or conversation in this process, and is stirred when it moves.

A wake-up is a hint without a promise: whoever is stirred reads the log by seq.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final, TypeVar

from typing_extensions import override

from app.service.ports.signals import Listener

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Sequence

    from app.log.envelope import Event
    from app.service.clock import Clock

# A hint may be lost, so whoever waits looks again after so many seconds.
LOOK_AGAIN_S: Final = 1.0
_Seen = TypeVar("_Seen")


class Wakeups(Listener):
    """Waiters by conversation; one set of them for commits of this and of other processes."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._waiting: defaultdict[str, set[asyncio.Event]] = defaultdict(set)
        self.is_closing = False

    def close(self) -> None:
        """The process goes down: whoever waits for something to come should wait no longer."""
        self.is_closing = True
        for waiting in self._waiting.values():
            for stirred in waiting:
                stirred.set()

    @contextmanager
    def of_conversation(self, conversation_id: str) -> Iterator[asyncio.Event]:
        """An event that is set whenever the conversation's log has grown."""
        stirred = asyncio.Event()
        self._waiting[conversation_id].add(stirred)
        try:
            yield stirred
        finally:
            self._waiting[conversation_id].discard(stirred)
            if not self._waiting[conversation_id]:
                del self._waiting[conversation_id]

    async def until(
        self,
        look: Callable[[], Awaitable[_Seen]],
        enough: Callable[[_Seen], bool],
        *,
        conversation_id: str,
        seconds: float,
    ) -> _Seen:
        """What `look` sees once it is enough, or when the time is up or the process goes down."""
        end = self._clock.monotonic() + seconds
        with self.of_conversation(conversation_id) as stirred:
            while True:
                stirred.clear()
                seen = await look()
                left = end - self._clock.monotonic()
                if enough(seen) or left <= 0 or self.is_closing:
                    return seen
                with suppress(TimeoutError):
                    async with asyncio.timeout(min(left, LOOK_AGAIN_S)):
                        await stirred.wait()

    @override
    def _committed(self, conversation_id: str, events: Sequence[Event]) -> None:
        self._stir(conversation_id)

    @override
    def _moved(self, conversation_id: str, head: int) -> None:
        self._stir(conversation_id)

    def _stir(self, conversation_id: str) -> None:
        for stirred in self._waiting.get(conversation_id, ()):
            stirred.set()
