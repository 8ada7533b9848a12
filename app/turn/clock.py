"""The clock of a turn that was given none: the event loop's own time and timer (turn.md 2.2).

It cannot tell the date, so such a turn shows the model no time.
"""

from __future__ import annotations

import asyncio


class LoopClock:
    """A stopwatch over the running event loop; the fraction of a millisecond serves as chance."""

    def now_ms(self) -> int:
        """Milliseconds since some unknown moment."""
        return int(asyncio.get_running_loop().time() * 1000)

    def jitter(self) -> float:
        """A number in [0, 1)."""
        return asyncio.get_running_loop().time() * 1000 % 1.0

    async def sleep(self, seconds: float) -> None:
        """Wait on the loop's timer."""
        await asyncio.sleep(seconds)
